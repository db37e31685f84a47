"""The options of several commands."""
