"""Git: the objects of a repository, read in a way that executes nothing of it."""
