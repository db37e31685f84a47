"""Java client properties, as the settings of a connection."""
