"""Tables that are given or made: clusters, desired quotas, principals, rows of plans."""
