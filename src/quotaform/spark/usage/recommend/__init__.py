"""Which quotas would fit recorded usage."""
