"""One module per command; a command imports no other."""
