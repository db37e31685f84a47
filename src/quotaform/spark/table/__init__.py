"""Tables that are given or made: principals, rows of plans."""
