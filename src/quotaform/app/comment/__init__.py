"""Comments on pull requests."""
