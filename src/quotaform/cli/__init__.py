"""The `quotaform` command: one module per subcommand, which parses, calls a use case and echoes."""
