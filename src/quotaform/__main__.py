"""`python -m quotaform` is the `quotaform` command."""

from quotaform.cli.main import main

main()
