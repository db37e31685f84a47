"""The machine: files, this process, other commands, the clock."""
