"""Kafka client quotas as code."""
