"""Views of quotas, as they are and as they resolve."""
