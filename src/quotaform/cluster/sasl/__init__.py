"""The SASL mechanisms: what each reads from client properties, and the tokens that it exchanges with a broker."""
