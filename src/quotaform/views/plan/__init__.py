"""Views of plans and of what became of them."""
