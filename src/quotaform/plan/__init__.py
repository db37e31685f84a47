"""A plan: the difference between files and clusters, what it does, what it is compared with, and what blocks it."""
