"""The tables that usage is read from, held against, and written to."""
