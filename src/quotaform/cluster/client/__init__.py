"""Java client properties, and the connection settings that they make."""
