"""JSON documents: plan files, receipts, snapshots and the results of commands."""
