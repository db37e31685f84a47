"""Java client properties and the connection settings read from them."""
