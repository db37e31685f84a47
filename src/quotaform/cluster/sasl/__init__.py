"""The mechanisms of SASL."""
