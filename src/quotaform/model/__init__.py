"""What things are: entities, quota keys, values, quotas, alterations and precedence.

Standard library only, no input or output (`HOUSE` law 3: the middle is pure).
"""
