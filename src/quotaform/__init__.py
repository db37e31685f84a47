"""Kafka client quotas as code: validate, plan, apply, and see when somebody changed the cluster."""

__version__ = "0.1.0"
