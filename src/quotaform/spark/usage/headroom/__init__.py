"""How close recorded usage is to its limits."""
