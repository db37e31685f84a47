"""Pictures of usage: what is in them, whoever named the entities and however many there are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import matplotlib as mpl
import pytest

from quotaform.history.history import Changer, EntityHistory, HistoryRow
from quotaform.history.report import drawn_limits, history_chart
from quotaform.model.entity import Entity
from quotaform.model.errors import QuotaformError, missing_extra
from quotaform.report.chart import (
    BacktestPart,
    Chart,
    Curve,
    HeadroomPart,
    Limit,
    LimitPart,
    ReplayPart,
    ReplaySlot,
    Span,
    headroom_parts,
    replay_part,
)
from quotaform.report.chart_text import render_chart_html, span_text, value_text
from quotaform.report.format import PICTURES
from quotaform.report.picture import chart_svg, draw_chart, draw_part, part_svgs
from quotaform.report.plot import library
from quotaform.report.plot.library import settings
from tests.usage_chart import START, backtest_example, headroom_example, history_example, tenants
from tools.pictures import PICTURES as DOCS_PICTURES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

pytestmark = pytest.mark.slow

NAMES = (
    "<script>alert(1)</script>",
    "a\u202eb",
    "x" * 300,
    "$\\frac{1}$",
    "日本語-クライアント" * 3,
    "a&b\"c'd",
    "__init__",
    "-->]]>",
    "%s{0}",
    "a\n::error::b",
)
EXAMPLES = {"headroom": headroom_example, "backtest": backtest_example, "history": history_example}


def hostile_chart() -> Chart:
    """Buckets, clusters and brokers with names that do something elsewhere."""
    rows = [row for part in headroom_example(30).parts if isinstance(part, HeadroomPart) for row in part.rows]
    named = [
        replace(
            row, bucket=replace(row.bucket, cluster=name, broker=name, key="producer_byte_rate", address=f"user={name}")
        )
        for name, row in zip(NAMES, rows, strict=False)
    ]
    return Chart(title=NAMES[0], about=NAMES, parts=headroom_parts(named, len(named)), notes=(NAMES[1],))


def many_buckets(number: int) -> Chart:
    """So many buckets of one key."""
    rows = [row for part in headroom_example(30).parts if isinstance(part, HeadroomPart) for row in part.rows]
    named = [
        replace(row, bucket=replace(row.bucket, address=f"user=svc-{index}", key="producer_byte_rate"))
        for index in range(number)
        for row in rows[index % 30 : index % 30 + 1]
    ]
    return Chart(title="Many", parts=headroom_parts(named, number))


@contextmanager
def drawn(chart: Chart) -> Iterator[Figure]:
    """Draw a chart."""
    with settings():
        yield draw_chart(chart)


def texts_of(svg: str) -> list[str]:
    """Return what is written in a document in SVG."""
    root = ElementTree.fromstring(svg)  # noqa: S314
    return ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]


def lines(axes: Axes, label: str) -> list[list[float]]:
    """Return the heights, or the places, of lines of a name."""
    return [[float(value) for value in line.get_ydata()] for line in axes.lines if line.get_label() == label]


class Page(HTMLParser):
    """What a page has: its elements, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.cells: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.extend(attrs)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.cells and self.tags[-1] in ("td", "th"):
            self.cells[-1] += data.strip("\n")


def test_the_limit_is_a_line_with_its_name_and_percents_are_on_the_scale() -> None:
    chart = headroom_example()
    with drawn(chart) as figure:
        for axes in figure.axes:
            (limit,) = [line for line in axes.lines if line.get_label() == "limit"]
            assert list(limit.get_xdata()) == [100, 100]
    shown = texts_of(chart_svg(chart))
    assert shown.count("limit") >= len(chart.parts)
    assert {"100%", "share of the limit", "20 MiB/s", "150%", "user=svc-orders"} <= set(shown)


def test_a_throttled_bucket_has_another_shape_and_the_closest_one_is_first() -> None:
    with drawn(headroom_example()) as figure:
        axes = figure.axes[0]
        assert axes.get_yticklabels()[0].get_text() == "user=svc-orders"
        shapes = [[line.get_marker() for line in axes.lines if list(line.get_ydata()) == [row]] for row in (0, 1)]
    assert "X" in shapes[0]
    assert "D" not in shapes[0]
    assert "D" in shapes[1]
    assert "X" not in shapes[1]


def test_a_rate_beyond_the_scale_ends_in_an_arrow() -> None:
    part = many_buckets(2).parts[0]
    assert isinstance(part, HeadroomPart)
    far = replace(part.rows[0], max=1000 * part.rows[0].limit)
    with settings():
        (axes,) = draw_part(replace(part, rows=(far, part.rows[1]))).axes
    assert axes.get_xlim() == (0, 250)
    assert [line.get_marker() for line in axes.lines if list(line.get_xdata()) == [250]] == [">"]


def test_limits_before_and_after_are_lines_in_the_unit_of_the_rate() -> None:
    chart = backtest_example()
    replay = next(part for part in chart.parts if isinstance(part, ReplayPart))
    with settings():
        rate, lane, recorded = draw_part(replay).axes
        assert replay.row.before_limit is not None
        assert replay.row.limit is not None
        assert lines(rate, "limit before") == [[replay.row.before_limit] * 2]
        assert lines(rate, "limit after") == [[replay.row.limit] * 2]
        assert rate.get_ylabel() == "MiB/s"
        assert recorded.get_ylabel() == "ms"
        solid, hatched = lane.collections
        assert len(solid.get_paths()) == len(replay.throttled)
        assert len(hatched.get_paths()) == len(replay.possible)
        assert hatched.get_hatch()
        assert not solid.get_hatch()
    shown = texts_of(part_svgs(chart)[1])
    assert {"limit before", "20 MiB/s", "limit after", "16 MiB/s", "2026 UTC", "11-10"} <= set(shown)


def test_a_limit_far_above_the_rates_leaves_the_scale_to_them() -> None:
    replay = next(part for part in backtest_example().parts if isinstance(part, ReplayPart))
    row = replace(replay.row, before_limit=None, limit=100 * replay.rate.highest)
    with settings():
        rate, *_ = draw_part(replace(replay, row=row)).axes
        assert rate.get_ylim()[1] < 2 * replay.rate.highest
        assert lines(rate, "limit after") == []
        labels = [text.get_text() for text in rate.texts]
    shown = value_text("producer_byte_rate", row.limit)
    assert shown.endswith(" GiB/s")
    assert sorted(labels) == [f"limit after\n{shown} ↑", "limit before\nunlimited"]


def test_a_value_that_ended_leaves_a_gap_and_the_usage_is_behind_the_limits() -> None:
    (part,) = history_example().parts
    assert isinstance(part, LimitPart)
    with settings():
        (axes,) = draw_part(part).axes
        assert [heights[0] for heights in lines(axes, "limit")] == [limit.value for limit in part.limits]
        assert lines(axes, "rate")
        assert [text.get_text() for text in axes.texts if "no value" in text.get_text()] == ["no value of its own"]


def test_a_value_is_dashed_after_the_last_snapshot() -> None:
    """One of a single snapshot could not be seen."""
    (part,) = history_example().parts
    assert isinstance(part, LimitPart)
    alone = replace(part, limits=(Limit(START, None, 1048576.0),), until=START)
    with settings():
        (axes,) = draw_part(alone).axes
        assert lines(axes, "open") == [[1048576.0] * 2]
        (line,) = [line for line in axes.lines if line.get_label() == "open"]
        assert line.get_xdata()[1] == axes.get_xlim()[1]


def test_a_curve_is_broken_where_nothing_was_recorded() -> None:
    (part,) = history_example().parts
    assert isinstance(part, LimitPart)
    half = replace(part.usage, times=part.usage.times[:10] + part.usage.times[20:30], values=part.usage.values[:20])
    points = list(half.with_gaps())
    assert [value is None for _, value in points] == [False] * 10 + [True] + [False] * 10
    assert points[10][0] == half.times[9] + timedelta(seconds=half.step_s)


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [1, 7, 50])
def test_texts_of_many_buckets_do_not_overlap(number: int) -> None:
    with drawn(many_buckets(number)) as figure:
        assert len(figure.axes[0].get_yticklabels()) == number
        require_apart(figure)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", EXAMPLES)
def test_texts_do_not_overlap(name: str) -> None:
    with drawn(EXAMPLES[name]()) as figure:
        require_apart(figure)


@pytest.mark.exhaustive
def test_limits_that_are_nearly_equal_have_labels_apart() -> None:
    replay = next(part for part in backtest_example().parts if isinstance(part, ReplayPart))
    for before, after in ((1.0, 1.001), (1.0, 1.0), (0.001, 0.002), (2.9, 2.9)):
        row = replace(replay.row, before_limit=before * replay.rate.highest, limit=after * replay.rate.highest)
        with settings():
            require_apart(draw_part(replace(replay, row=row)))


def require_apart(figure: Figure) -> None:
    """Make sure that no text is over another one or over the edge."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    shown: list[Text] = [
        text
        for text in figure.findobj(Text)
        if text.get_text() and text.get_visible() and not is_hidden_mark(text, figure)
    ]
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in shown]
    for text, box in boxes:
        assert box.x0 >= 0, text
        assert box.x1 <= figure.bbox.x1, text
        assert box.y0 >= 0, text
        assert box.y1 <= figure.bbox.y1, text
    for (text, box), (other, second) in combinations(boxes, 2):
        assert not box.padded(-1).overlaps(second), (text, other)


def is_hidden_mark(text: Text, figure: Figure) -> bool:
    """Whether a text is a mark of a scale that is beyond its ends, or has no labels."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in axis.get_major_ticks():
                if text in (tick.label1, tick.label2):
                    is_shown = tick.label1.get_visible() if text is tick.label1 else tick.label2.get_visible()
                    return not is_shown or not low <= tick.get_loc() <= high
    return False


def test_names_are_inert_in_pictures_and_pages() -> None:
    chart = hostile_chart()
    for svg in (chart_svg(chart), *part_svgs(chart)):
        root = ElementTree.fromstring(svg)  # noqa: S314
        assert not [element for element in root.iter() if "script" in element.tag]
        assert "\u202e" not in svg
        assert max(map(len, texts_of(svg))) < 400
    document = PICTURES["html"](chart).decode()
    page = Page(document)
    assert "\u202e" not in document
    assert "\n::error" not in document
    assert not {"script", "link", "iframe", "img", "object", "image"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name in ("src", "onload") or name.startswith("on")]
    assert "user=<script>alert(1)</script>" in page.cells
    assert f"user={'x' * 300}" in page.cells
    assert "user=a&b\"c'd" in page.cells
    with drawn(replace(chart, about=())) as figure:
        labels = [text.get_text() for axes in figure.axes for text in axes.get_yticklabels()]
        require_apart(figure)
    assert max(map(len, labels)) <= 50
    assert any("…" in label for label in labels)


def test_a_page_needs_nothing_else() -> None:
    for make in EXAMPLES.values():
        chart = make()
        document = PICTURES["html"](chart).decode()
        page = Page(document)
        links = [value for name, value in page.attributes if name in ("href", "xlink:href")]
        assert all(value is not None and value.startswith("#") for value in links)
        assert "@import" not in document
        assert "url(" not in document.replace("url(#", "")
        assert page.tags.count("svg") == page.tags.count("table") == len(chart.parts)
        assert "prefers-color-scheme" in document or "color-scheme: light dark" in document


def test_tables_have_the_numbers_of_the_pictures() -> None:
    chart = backtest_example()
    cells = Page(PICTURES["html"](chart).decode()).cells
    part = chart.parts[0]
    assert isinstance(part, BacktestPart)
    assert {"limit before", "throttled", "lower bound", "upper bound", "recorded", "first"} <= set(cells)
    for row in part.rows:
        assert row.bucket.address in cells
        assert row.throttled_s is not None
        assert span_text(row.throttled_s) in cells
    assert {"20 MiB/s", "16 MiB/s"} <= set(cells)


def test_no_data_is_said() -> None:
    chart = Chart(title="Headroom", about=("usage.parquet",), nothing="No rates were recorded.")
    assert texts_of(chart_svg(chart)) == ["Headroom", "usage.parquet", "No rates were recorded."]
    assert "<p>No rates were recorded.</p>" in render_chart_html(chart, [])
    assert PICTURES["png"](chart).startswith(b"\x89PNG")


@pytest.mark.parametrize("format_name", PICTURES)
def test_equal_charts_give_equal_files_whatever_the_user_set(format_name: str) -> None:
    draw = PICTURES[format_name]
    chart = history_example()
    first = draw(chart)
    with mpl.rc_context({"font.size": 30, "axes.grid": True, "svg.fonttype": "path", "savefig.bbox": "tight"}):
        assert draw(chart) == first
        assert mpl.rcParams["font.size"] == 30
    assert b"202" not in first or b"<dc:date>" not in first


def test_the_missing_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "find_spec", lambda name: None)
    with pytest.raises(QuotaformError) as raised:
        PICTURES["svg"](history_example())
    assert str(raised.value) == f"Pictures are drawn by matplotlib: {missing_extra('plot')}."
    assert "\n" not in str(raised.value)
    assert raised.value.exit_code == 1


def test_the_example_has_two_throttled_users_and_an_unused_one() -> None:
    rows = [row for part in headroom_example(30).parts if isinstance(part, HeadroomPart) for row in part.rows]
    assert len(rows) == len(tenants()) == 30
    assert sorted(row.bucket.address for row in rows if row.throttled_s) == ["user=svc-billing", "user=svc-orders"]
    assert [row.bucket.address for row in rows if row.max == 0] == [tenants()[-1].address]


def test_spans_of_slots_that_follow_each_other_are_one() -> None:
    part = next(part for part in backtest_example().parts if isinstance(part, ReplayPart))
    times = [START + timedelta(minutes=minute) for minute in range(6)]
    slots = [
        ReplaySlot(at=at, rate=1.0, throttle_ms=5.0 if at == times[1] else None, waits=waits, may_wait=waits)
        for at, waits in zip(
            times,
            (None, Span(times[0], times[1]), Span(times[1], times[2]), None, Span(times[3], times[4]), None),
            strict=True,
        )
    ]
    made = replay_part(part.row, slots, 1.0)
    assert made.throttled == made.possible == (Span(times[0], times[2]), Span(times[3], times[4]))
    assert made.rate.times == tuple(times)
    assert made.rate.step_s == 60.0
    assert (made.recorded.times, made.recorded.values) == ((times[1],), (5.0,))


def test_the_limits_that_are_drawn_and_what_is_left_out() -> None:
    rows = [
        HistoryRow(
            cluster="lab",
            cluster_id="id",
            entity=Entity(user=f"user-{index:02}"),
            key="producer_byte_rate",
            value=1048576.0,
            valid_from=START,
            changed_by=Changer(actor="ana", plan_id="sha256:41c84b9e00", commit=None, at=START),
        )
        for index in range(25)
    ]
    end = START + timedelta(days=1)
    found = EntityHistory(table="kept", entities=(), rows=tuple(rows), total=2000, since=START, until=end)
    chart = history_chart(found, "usage", {drawn_limits(found)[0]: Curve((START,), (5.0,))})
    assert len(chart.parts) == 20
    assert chart.notes == (
        "Only the first 25 of 2,000 values were looked at; name an entity.",
        "The first 20 of 25 limits are drawn; name an entity to see others.",
        "No usage is known of 19 of them; that of a default entity, of many buckets, is not drawn.",
    )
    page = PICTURES["html"](chart).decode()
    assert "ana, plan 41c84b9e" in page
    with drawn(chart) as figure:
        require_apart(figure)


@pytest.mark.parametrize("name", DOCS_PICTURES)
def test_the_pictures_of_the_docs_are_what_is_drawn_now(name: str) -> None:
    kept = Path("docs/images", name).read_text(encoding="utf-8")
    assert kept == chart_svg(DOCS_PICTURES[name]()), f"docs/images/{name} is out of date: run make docs"
