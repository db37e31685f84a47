"""What `quotaform apply` does between its options and the use case: plans to apply, approval, receipts."""
