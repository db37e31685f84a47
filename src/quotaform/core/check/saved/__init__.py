"""Checks of what was read from plan files and receipts."""
