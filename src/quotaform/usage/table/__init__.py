"""The usage table: its columns, reading it, adding to it."""
