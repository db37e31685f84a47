"""Use cases: each a function that returns values and prints nothing."""
