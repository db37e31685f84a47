"""Results as HTML pages: what they show, that they ask for nothing, and that names do nothing in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import cache
from html.parser import HTMLParser

import pytest
from msgspec.structs import replace
from msgspec.structs import replace as changed

from quotaform.drift.drift import make_drift
from quotaform.history.history import Changer, EntityHistory, HistoryRow, history_page
from quotaform.model.entity import Entity
from quotaform.model.finding import Finding
from quotaform.plan.receipt import Result
from quotaform.report.comment import COMMENT_BYTES, render_markdown
from quotaform.report.format import REPORT_FORMATS, function_of, render
from quotaform.report.html import render_html
from quotaform.report.report import Curve, Number, Plot, Report, Section, Span, Table
from quotaform.resolve.report import resolve_report
from quotaform.usage.replay.report import DrawnBucket, drawn_buckets, joined, replay_plots
from tests.builder import PRODUCER, plan_of, receipt_of
from tests.golden import usage_example as example
from tests.golden.conftest import Golden
from tests.golden.example import based_plan, empty_plan, example_drift, guarded_plan
from tests.golden.fleet_example import example_report
from tests.golden.test_views import plan, run

HOSTILE = ("</td><script>alert(1)</script>", 'a" onclick="x', "a\u202eb", "x" * 40_000, "'><img src=//evil>", "日本語")


class Page(HTMLParser):
    """The elements of a page with their attributes, and its text without style and script."""

    def __init__(self, pieces: Iterable[str]) -> None:
        super().__init__()
        self.html = "".join(pieces)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(self.html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] not in ("style", "script"):
            self.text += data

    @property
    def body(self) -> str:
        """The page without its style and script, which are files of their own."""
        return re.sub(r"(?s)<(style|script)>.*?</\1>|'sha256-[^']*'", "...", self.html)


def replays() -> dict[DrawnBucket, list[Plot]]:
    """What would have happened to the buckets of the example, with a gap."""
    at = {minute: (example.FIRST + timedelta(minutes=minute)).timestamp() * 1e6 for minute in range(31)}
    slots = [
        {
            "at": at[minute],
            "rate": minute * 1e5,
            "throttle_ms": 2.0 * minute if minute > 8 else None,
            "start": at[minute - 1] if minute in (6, 7, 11) else None,
            "end": at[minute] if minute in (6, 7, 11) else None,
            "start_high": at[0] if minute == 1 else None,
            "end_high": at[1] if minute == 1 else None,
        }
        for minute in (1, 2, 3, 6, 7, 8, 9, 11, 30)
    ]
    first = drawn_buckets(example.BACKTEST)[0]
    return {first: [*replay_plots(*first, slots, 60.0)]}


def history(name: str = "alice") -> Iterable[str]:
    """The page of a limit that was changed twice."""

    def row(value: float, since: datetime, until: datetime | None, by: Changer | None) -> HistoryRow:
        return HistoryRow(
            cluster="lab",
            cluster_id="id",
            entity=Entity(user=name),
            key=PRODUCER,
            value=value,
            valid_from=since,
            valid_to=until,
            changed_by=by,
        )

    ana = Changer(actor="ana", at=example.LAST, plan_id=f"sha256:{'4' * 64}", commit=None)
    noon = example.FIRST + timedelta(hours=12)
    rows = (row(1e6, example.FIRST, noon, None), row(5e6, noon, None, ana))
    found = EntityHistory(
        table="kept", entities=(f"user={name}",), since=example.FIRST, until=example.LAST, rows=rows, total=2
    )
    curve = Curve((example.FIRST, noon), (9e5, 1.2e6), 43_200.0)
    return render_html(history_page(found, "usage", {("lab", Entity(user=name), PRODUCER): curve}))


def resolved() -> Iterable[str]:
    """The page of requests of all kinds, with a plan."""
    return render_html(resolve_report(run(plan=plan())))


PAGES: dict[str, Callable[[], Iterable[str]]] = {
    "headroom": lambda: render("usage-headroom", "html", example.HEADROOM),
    "headroom-nothing": lambda: render("usage-headroom", "html", example.NO_HEADROOM),
    "backtest": lambda: render("usage-backtest", "html", example.BACKTEST, replays=replays()),
    "history": history,
    "recommend": lambda: render("usage-recommend", "html", example.SEVERAL),
    "plan": lambda: render("plan", "html", based_plan()),
    "plan-blocked": lambda: render("plan", "html", guarded_plan()),
    "plan-nothing": lambda: render("plan", "html", empty_plan()),
    "receipt": lambda: render(
        "receipt", "html", receipt_of(based_plan(), Result.APPLIED, Result.REFUSED, message="no")
    ),
    "drift": lambda: render("drift", "html", example_drift()),
    "resolve": resolved,
    "fleet": lambda: render("fleet-report", "html", example_report("plan")),
}


@cache
def page_of(name: str) -> Page:
    return Page(PAGES[name]())


@pytest.mark.parametrize("name", PAGES)
def test_a_page(name: str, golden: Golden) -> None:
    page = page_of(name)
    golden(f"page-{name}.html", page.body)
    policy = next(each["content"] for tag, each in page.tags if tag == "meta" and "http-equiv" in each)
    assert str(policy).startswith("default-src 'none'; style-src 'sha256-")
    # Nothing is asked of anybody, and no attribute has a style or a script.
    assert not re.search(r"(?i)https?:|src=|url\(|<link|<iframe", page.html.replace("default-src", ""))
    assert not {key for _, each in page.tags for key in each if key == "style" or key.startswith("on")}
    ids = [each["id"] for _, each in page.tags if "id" in each]
    assert len(ids) == len(set(ids))
    assert all(each.get("scope") in ("col", "row") for tag, each in page.tags if tag == "th")


@pytest.mark.parametrize("name", HOSTILE)
def test_names_stay_text(name: str) -> None:
    row = changed(example.BACKTEST.clusters[0].changed.rows[0], bucket=f"user={name}", broker=name, key=name)
    cluster = example.BACKTEST.clusters[0]
    clusters = (changed(cluster, cluster=name, changed=changed(cluster.changed, rows=(row,))),)
    use = changed(example.HEADROOM.buckets[0], bucket=f"user={name}", cluster=name, broker=name, key=name)
    entity = Entity(user=name)
    planned = plan_of(
        {entity: {PRODUCER: 5.0, "request_percentage": 2.0}}, {entity: {PRODUCER: 2.0, name: float("nan")}}
    )
    for same, pieces in {
        "plan": render("plan", "html", planned),
        "receipt": render("receipt", "html", receipt_of(planned, Result.REFUSED, message=name)),
        "drift": render("drift", "html", make_drift(planned, ignores=[], today=example.LAST.date())),
        "headroom": render("usage-headroom", "html", changed(example.HEADROOM, usage=name, buckets=(use,))),
        "backtest": render("usage-backtest", "html", changed(example.BACKTEST, usage=name, clusters=clusters)),
        "history": history(name),
    }.items():
        page = Page(pieces)
        assert {tag for tag, _ in page.tags} <= {tag for tag, _ in page_of(same).tags} | {"figure"}
        assert not {key for _, each in page.tags for key in each if key.startswith("on")}
        assert "\u202e" not in page.html
        assert len(page.html) < 40_000


def test_every_row_of_a_large_table_is_there_and_can_be_linked_to_by_its_address() -> None:
    rows = tuple((f"user=u{number % 900}", Number(f"{number} B/s", float(number))) for number in range(1000))
    page = Page(render_html(Report(title="Many", sections=(Section(Table("all", ("entity", "limit"), rows)),))))
    assert [tag for tag, _ in page.tags].count("tr") == 1001
    assert {"user=u0", "user=u899"} <= {str(each["id"]) for tag, each in page.tags if "id" in each}
    assert "1,000 rows" in page.text


def test_times_with_less_than_a_step_between_them_are_one() -> None:
    at = example.FIRST
    step = timedelta(minutes=1)
    spans = [Span(at, at + step), Span(at + 1.5 * step, at + 2 * step), Span(at + 4 * step, at + 5 * step)]
    assert joined(spans, step) == (Span(at, at + 2 * step), spans[2])


@pytest.mark.parametrize("kind", ["text", "markdown", "html"])
def test_what_describes_itself_is_told_in_every_format(kind: str) -> None:
    rows = tuple((f"name{number}", f"value{number}") for number in range(2_000))
    table = Table("caption", ("first", "second"), rows[:1], more="more to say", hint="look elsewhere", total=2_000)
    report = Report(
        title="title", state="state", about=("origin",), total="total", notes=("note",),
        findings=(Finding(rule="rule", message="message", address="user=a", blocking=True),),
        sections=(Section(table, sentences=("above",), notes=("below",)),),
    )  # fmt: skip
    text = "".join(function_of(REPORT_FORMATS[kind])(report))
    facts = ("origin", "total", "note", "rule", "message", "user=a", "caption", "name0", "value0", "above", "below")
    assert [fact for fact in (*facts, "ore to say") if fact not in text] == []
    assert ("title: state" in text) == (kind != "text")
    assert "And 1,999 more. look elsewhere" in text or "... and 1,999 more. look elsewhere" in text
    many = replace(report, sections=(Section(replace(table, rows=rows)),))
    assert len(render_markdown(many).encode()) <= COMMENT_BYTES
