"""Quotas that fit the recorded usage."""
