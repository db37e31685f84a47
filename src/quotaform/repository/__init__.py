"""A quota repository: a tree of files, its clusters and their gateways."""
