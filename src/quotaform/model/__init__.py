"""What quotas are: entities, keys, values, precedence, findings, settings; pure values."""
