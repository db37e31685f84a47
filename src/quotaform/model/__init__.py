"""The domain model: entities, quota keys, values, quotas, alterations and precedence.

It uses the standard library only and does no input or output.
"""
