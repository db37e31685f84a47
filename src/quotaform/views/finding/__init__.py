"""Views of findings."""
