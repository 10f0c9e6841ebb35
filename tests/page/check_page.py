"""The status page in a real browser: live updates, clicks, keyboard, light and dark, and no violation of axe.

`make test-page` installs the browser and runs this. SCREENSHOT names a file for a picture of the page.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import sync_playwright

from engine.model import CollectionId
from tests.memory_source import Change
from tests.unit.adapters.http.watched_job import Client, WatchedJob

if TYPE_CHECKING:
    from collections.abc import Iterator

AXE = Path(__file__).parents[2] / ".cache/page/node_modules/axe-core/axe.min.js"
SCHEMES = ("light", "dark")
CHANGED = """before => [...document.querySelectorAll('dt')]
    .some(dt => dt.textContent === 'events sent' && dt.nextSibling.textContent !== before)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def job(tmp_path: Path) -> WatchedJob:
    return WatchedJob(tmp_path, tidemark_http_port="0", tidemark_http_control="true", name="orders")


@pytest.fixture
def client(job: WatchedJob) -> Iterator[Client]:
    job.begin().turns(1)
    with job.served() as served, job.turning():
        yield served


@contextmanager
def opened(browser: Any, client: Client, scheme: str = "light") -> Iterator[Any]:
    """The page, of which nothing may fail: no error of the script, no breach of the policy."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1180, "height": 1250})
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda told: faults.append(told.text) if told.type == "error" else None)
    page.goto(f"http://127.0.0.1:{client.port}/")
    yield page
    context.close()
    assert faults == []


def violations(page: Any) -> list[str]:
    """What axe finds; it is run beside the page's policy, which it does not belong to."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{violation['id']}: {violation['nodes'][0]['html']}" for violation in found["violations"]]


def press(page: Any, button: str) -> None:
    page.get_by_role("button", name=button, exact=True).click()


def test_buttons_pause_resume_and_stop_a_snapshot_while_the_page_is_live(browser: Any, client: Client):
    with opened(browser, client) as page:
        press(page, "pause")
        page.get_by_text("accepted: every snapshot in progress will pause").wait_for()
        page.get_by_label("Collections, separated by commas").fill("public.t, public.u")
        press(page, "execute")
        page.get_by_text("accepted: incremental snapshot of public.t, public.u").wait_for()
        press(page, "stop public.u")
        page.get_by_text("public.u stopped after 0 rows").wait_for()
        press(page, "resume public.t")
        page.get_by_text("public.t completed: 5 rows read").wait_for(timeout=30_000)
        page.get_by_text("Nothing is being read.").wait_for()


def test_numbers_change_without_a_click(browser: Any, client: Client, job: WatchedJob):
    with opened(browser, client) as page:
        sent = page.locator("dt:text-is('events sent') + dd")
        before = sent.inner_text()
        job.bench.database.commit(Change(CollectionId(("public", "t")), 77, "new"))
        page.wait_for_function(CHANGED, arg=before, timeout=30_000)


def test_the_keyboard_reaches_everything_and_keeps_its_place(browser: Any, client: Client, job: WatchedJob):
    with opened(browser, client) as page:
        press(page, "pause")
        page.get_by_label("Collections, separated by commas").fill("public.t")
        press(page, "execute")
        page.get_by_role("button", name="resume public.t", exact=True).wait_for()
        page.keyboard.press("Home")
        page.locator("body").press("Tab")
        for _ in range(40):
            focused = page.evaluate("document.activeElement.id")
            if focused == "resume-0":
                break
            page.keyboard.press("Tab")
        assert focused == "resume-0"
        job.bench.database.signal("x", "execute-snapshot", '{"data-collections": ["public.u"]}')
        page.get_by_role("button", name="resume public.u", exact=True).wait_for(timeout=30_000)
        assert page.evaluate("document.activeElement.id") == "resume-0"
        page.keyboard.press("Enter")
        page.get_by_text("accepted: the snapshot of public.t will go on").wait_for()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_no_violation(browser: Any, client: Client, scheme: str):
    with opened(browser, client, scheme) as page:
        assert violations(page) == []
        press(page, "pause")
        page.get_by_label("Collections, separated by commas").fill("public.t, public.u")
        press(page, "execute")
        page.get_by_role("button", name="resume public.t", exact=True).wait_for()
        assert violations(page) == []


def test_a_job_that_is_gone_is_told(browser: Any, job: WatchedJob):
    job.begin().turns(1)
    with job.served() as client:
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{client.port}/")
    page.context.set_offline(True)
    page.get_by_text("The job does not answer; what is shown is old.").wait_for(timeout=30_000)
    context.close()
