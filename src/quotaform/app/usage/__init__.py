"""Use cases about what clients use at this moment: recording it, and who is throttled."""
