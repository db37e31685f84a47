"""The commands, `quotaform` and `kafka-client-quotas`; `python -m quotaform` is the first one.

Each of them handles signals before it imports anything else, which takes longest of all that happens first.
"""

from quotaform.system.process import end_on_signals


def main() -> None:
    """Run `quotaform` with the arguments of the process and exit."""
    end_on_signals()
    from quotaform.cli.main import main

    main()


def client_quotas() -> None:
    """Run `kafka-client-quotas` with the arguments of the process and exit."""
    end_on_signals()
    from quotaform.cli.client_quotas import main

    main()


if __name__ == "__main__":
    main()
