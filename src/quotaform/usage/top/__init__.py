"""Who is throttled at this moment."""
