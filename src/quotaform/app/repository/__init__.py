"""A quota repository: its files, its configuration and its clusters."""
