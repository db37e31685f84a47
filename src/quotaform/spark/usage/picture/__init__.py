"""Usage over time, as pictures draw it."""
