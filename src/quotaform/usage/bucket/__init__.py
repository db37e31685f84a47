"""Which bucket each recorded series belongs to, and the samples of each bucket as arrays."""
