"""Proposals for quotas as changes of the quotas directory."""
