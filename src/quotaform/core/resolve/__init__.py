"""Which quota applies to a request: the table of precedence walked over an index of quotas."""
