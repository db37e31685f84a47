"""`quotaform usage`: the usage of quotas: recorded, compared with limits, replayed, and turned into limits that fit."""

from __future__ import annotations

import typer

from quotaform.cli.command.usage.backtest import backtest
from quotaform.cli.command.usage.headroom import headroom
from quotaform.cli.command.usage.ingest import ingest
from quotaform.cli.command.usage.recommend import recommend
from quotaform.cli.command.usage.record import record

app = typer.Typer(help="Measure usage: record, ingest, headroom, backtest, recommend.", no_args_is_help=True)

app.command("ingest", short_help="Add existing recordings to a usage table.")(ingest)
app.command("record", short_help="Record the usage metrics of brokers.")(record)
app.command("headroom", short_help="Show how close clients are to their quotas.")(headroom)
app.command("backtest", short_help="Show what a plan would have throttled, from recorded usage.")(backtest)
app.command("recommend", short_help="Propose quotas that fit the recorded usage.")(recommend)
