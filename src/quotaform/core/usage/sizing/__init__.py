"""Right-sized quotas: what buckets used, and the values that fit it."""
