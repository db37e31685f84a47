"""Pull requests and CI systems: comments, the base that a run names, a new repository with its workflows."""
