"""Planning clusters, and saved plans."""
