"""A Kafka cluster: reading and changing its quotas and SCRAM credentials, or a snapshot of it."""
