"""YAML text to plain values with the place of each."""
