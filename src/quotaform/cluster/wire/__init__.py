"""The connection to brokers and its messages; the only package that imports kafka-python."""
