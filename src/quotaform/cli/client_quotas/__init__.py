"""`kafka-client-quotas`, the command of KIP-546."""
