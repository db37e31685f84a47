"""Reads what brokers offer about themselves at this moment: exporters of Prometheus, JMX, and Prometheus."""
