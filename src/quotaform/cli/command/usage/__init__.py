"""`quotaform usage`: what clients use of their quotas, and what follows from it; on Spark."""

from __future__ import annotations

import typer

from quotaform.cli.command.usage.recommend import recommend

app = typer.Typer(help="Measure usage: record, headroom, backtest, recommend.", no_args_is_help=True)

app.command("recommend", short_help="Propose quotas that fit what is used.")(recommend)
