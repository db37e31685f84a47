"""Checks: the findings about a plan, a cluster and what was resolved, and the table of their rules."""
