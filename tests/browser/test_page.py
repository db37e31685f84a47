"""Pages in a real Chromium: search, sorting, folding, the keyboard, hostile names, and a page of 10,000 rows."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from quotaform.report.html import render_html
from quotaform.report.report import Bar, Number, Report, Section, Table
from tests.golden.conftest import FOLDER
from tests.golden.test_pages import HOSTILE, page_of

ENTER, SPACE, RIGHT = "\ue007", "\ue00d", "\ue014"


class Browser:
    """A session of WebDriver (W3C)."""

    def __init__(self, address: str, folder: Path) -> None:
        self._folder = folder
        options = {"args": ["--headless", "--no-sandbox", "--disable-gpu"]}
        asked = {
            "capabilities": {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}
        }
        self._address = f"{address}/session"
        self._address = f"{self._address}/{self._ask('', asked)['sessionId']}"

    def _ask(self, path: str, body: dict[str, Any]) -> Any:
        request = Request(self._address + path, json.dumps(body).encode(), {"Content-Type": "application/json"})  # noqa: S310
        with urlopen(request, timeout=30) as answer:  # noqa: S310
            return json.load(answer)["value"]

    def close(self) -> None:
        """End the session, and with it Chromium, which goes on when only its driver ends."""
        urlopen(Request(self._address, method="DELETE"), timeout=30).close()  # noqa: S310

    def open(self, html: str, anchor: str = "") -> None:
        """Open a page as a file."""
        path = self._folder / f"page-{time.monotonic_ns()}.html"
        path.write_text(html, encoding="utf-8")
        self._ask("/url", {"url": f"{path.as_uri()}{anchor}"})

    def run(self, script: str, *arguments: object) -> Any:
        """Return what a script returns."""
        return self._ask("/execute/sync", {"script": script, "args": list(arguments)})

    def audit(self) -> tuple[list[str], int]:
        """Return what axe-core, which is in the page, finds wrong with it, and how many rules hold."""
        script = """const done = arguments[0]; axe.run().then(found => done(
            [found.violations.map(each => each.id + ': ' + each.nodes[0].html), found.passes.length]))"""
        wrong, held = self._ask("/execute/async", {"script": script, "args": []})
        return wrong, held

    def use_dark(self, *, is_dark: bool) -> None:
        """Prefer dark colours, or light ones."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        command = {"cmd": "Emulation.setEmulatedMedia", "params": {"features": [scheme]}}
        self._ask("/goog/cdp/execute", command)

    def type(self, selector: str, keys: str) -> None:
        """Type into an element."""
        found = self._ask("/element", {"using": "css selector", "value": selector})
        self._ask(f"/element/{next(iter(found.values()))}/value", {"text": keys})

    def shown(self) -> list[str]:
        """Return what the rows that are shown are about."""
        script = (
            "return [...document.querySelectorAll('tbody tr')].filter(r => !r.hidden).map(r => r.cells[0].textContent)"
        )
        found: list[str] = self.run(script)
        return found

    def messages(self) -> list[str]:
        """Return what the page was refused, or failed at."""
        return [each["message"] for each in self._ask("/se/log", {"type": "browser"})]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    driver = shutil.which("chromedriver")
    assert driver is not None, "these tests need Chromium: apt-get install chromium chromium-driver"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        with closing(Browser(f"http://127.0.0.1:{port}", tmp_path_factory.mktemp("pages"))) as browser:
            yield browser
    finally:
        process.terminate()
        process.wait()


def page(names: list[str]) -> str:
    """A page of a table with so many names, their values from the highest on."""
    rows = tuple(
        (
            name,
            Number(f"{len(names) - place} B/s", float(len(names) - place)),
            Bar(value=place, scale=len(names)),
            "team-a",
        )
        for place, name in enumerate(names)
    )
    table = Table("Quotas", ("entity", "limit", "chart", "owner"), rows)
    return "".join(render_html(Report(title="Quotas", sections=(Section(table),))))


def test_rows_are_searched_sorted_and_folded_with_the_keyboard_alone(browser: Browser) -> None:
    browser.open(page(["user=alice", "user=bob", "client-id=etl"]))
    browser.type("input[type=search]", "user bo")
    assert browser.shown() == ["user=bob"]
    assert browser.run("return document.querySelector('[role=status]').textContent") == "1 of 3 rows"
    browser.type("input[type=search]", "\ue003" * 9)
    limit = "th:nth-child(2) button"
    browser.type(limit, ENTER)
    assert browser.shown() == ["client-id=etl", "user=bob", "user=alice"]
    assert browser.run("return document.querySelector('th:nth-child(2)').ariaSort") == "ascending"
    browser.type(limit, SPACE)
    assert browser.shown() == ["user=alice", "user=bob", "client-id=etl"]
    browser.type("summary", ENTER)
    assert browser.run("return document.querySelector('details').open") is False


def test_a_curve_is_read_and_an_entity_is_linked_to(browser: Browser) -> None:
    browser.open(page_of("history").html, "#user=alice")
    cells = browser.run("return [...document.querySelector(':target').children].map(cell => cell.textContent)")
    assert cells[:4] == ["user=alice", "lab", "producer_byte_rate", "1 MB/s"]
    browser.type("svg.plot", RIGHT)
    assert browser.run("return document.querySelector('output').textContent") == "2026-11-01 12:00:00 UTC: 1.2 MB/s"


def test_hostile_names_are_inert_and_nothing_is_asked_of_anybody(browser: Browser) -> None:
    browser.open(page(list(HOSTILE)))
    assert browser.shown()[0] == HOSTILE[0]
    assert browser.run("return document.querySelectorAll('tbody script, img, [onclick]').length") == 0
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    assert browser.messages() == []
    browser.run("document.body.append(Object.assign(document.createElement('img'), {src: 'http://127.0.0.1:1/x'}))")
    browser.run("document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\" onclick=\"x()\">x</p>')")
    time.sleep(0.2)
    assert all("Content Security Policy" in each for each in browser.messages())


def test_ten_thousand_rows_can_be_used(browser: Browser) -> None:
    browser.open(page([f"user=svc-{number}" for number in range(10_000)]))
    took = browser.run("const e = performance.getEntriesByType('navigation')[0]; return e.loadEventEnd - e.startTime")
    assert took > 0
    print(f"open: {took:.0f} ms")
    browser.type("input[type=search]", "svc-999")
    assert len(browser.shown()) == 11
    began = time.monotonic()
    browser.type("th:nth-child(2) button", ENTER)
    assert browser.shown()[0] == "user=svc-9999"
    print(f"sort: {time.monotonic() - began:.2f} s")


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    npm, folder = shutil.which("npm"), tmp_path_factory.mktemp("axe")
    assert npm is not None, "this test needs npm, which fetches axe-core: apt-get install npm"
    subprocess.run([npm, "pack", "--silent", "axe-core@4.14.1"], cwd=folder, check=True, capture_output=True)
    shutil.unpack_archive(folder / "axe-core-4.14.1.tgz", folder, filter="data")
    return (folder / "package/axe.min.js").read_text(encoding="utf-8")


@pytest.mark.prove
@pytest.mark.parametrize("is_dark", [False, True])
def test_axe_finds_nothing_wrong_with_any_page(browser: Browser, axe: str, is_dark: bool) -> None:
    browser.use_dark(is_dark=is_dark)
    for path in sorted(FOLDER.glob("page-*.html")):
        browser.open(path.read_text(encoding="utf-8"))
        assert browser.run("return matchMedia('(prefers-color-scheme: dark)').matches") is is_dark
        browser.run(axe)
        wrong, held = browser.audit()
        assert wrong == [], path
        assert held > 10, path
