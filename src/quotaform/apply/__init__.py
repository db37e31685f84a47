"""Applying plans: checks against the cluster, a dry run, the write, receipts, locks and the audit log."""
