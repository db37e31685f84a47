"""Work on clusters in tasks: how it gets to executors, and how its outcomes come back."""
