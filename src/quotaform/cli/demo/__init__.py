"""The demos: commands on real clusters, shown with their output."""
