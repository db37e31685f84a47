"""One module per subcommand of `quotaform`."""
