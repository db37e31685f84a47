"""The connection to brokers and its messages."""
