"""How close clients are to their quotas."""
