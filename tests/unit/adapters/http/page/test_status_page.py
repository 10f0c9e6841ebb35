"""The page over HTTP: what it shows, that it is escaped, and the signals that its forms send."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from engine.model import CollectionId
from signals.answers import Answer, Outcome
from tests.job_bench import BOTH
from tests.memory_source import Change
from tests.unit.adapters.http.watched_job import Got, WatchedJob

if TYPE_CHECKING:
    from pathlib import Path

VOID = {"meta", "link", "input", "br"}
EVIL = '<script>alert("x")</script>'


class Outline(HTMLParser):
    """Ids, labels and tags of a page; raises if tags are not closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def ids(self) -> list[str]:
        return [str(attributes["id"]) for _tag, attributes in self.tags if "id" in attributes]


@pytest.fixture
def job(tmp_path: Path) -> WatchedJob:
    return WatchedJob(tmp_path, tidemark_http_port="0", tidemark_http_control="true")


def csrf(page: Got) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', page.text)
    assert found is not None
    return found[1]


def test_the_page_shows_snapshots_the_hour_windows_and_answers(job: WatchedJob):
    bench = job.begin()
    bench.execute(BOTH)
    bench.turns(2)
    bench.now_s += 5
    job.monitor.history.take()
    bench.now_s += 5
    job.monitor.history.take()
    with job.served() as client:
        page = client.get("/")
        assert page.status == 200
        outline = Outline(page.text)
        shown = client.get("/sections").json

    assert list(shown) == ["state", "collections", "hour", "windows", "answers"]
    assert len(outline.ids()) == len(set(outline.ids()))
    assert {"said", "signals", *shown} <= set(outline.ids())
    assert "public.t" in shown["collections"]
    assert 'aria-label="public.t: ' in shown["collections"]
    assert shown["hour"].count("<polyline") == 4
    assert "4.1 kB" in shown["state"]
    assert "accepted" in shown["answers"]
    for section in shown.values():
        Outline(section)
        assert "csrf" not in section or section is shown["collections"]


def test_neither_style_nor_script_is_inline_and_controls_have_names(job: WatchedJob):
    bench = job.begin()
    bench.execute(BOTH)
    bench.turns(2)
    with job.served() as client:
        page, css, script = client.get("/"), client.get("/page.css"), client.get("/page.js")
        icon, outline = client.get("/icon.svg"), Outline(page.text)

    assert (css.status, script.status, icon.status) == (200, 200, 200)
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    for tag, attributes in outline.tags:
        assert not [name for name in attributes if name == "style" or name.startswith("on")]
        assert tag != "script" or attributes["src"] == "page.js"
        assert tag != "button" or attributes["aria-label"]
        assert tag != "svg" or attributes.get("aria-label") or attributes.get("aria-hidden")


def test_whatever_comes_from_outside_is_escaped(job: WatchedJob):
    bench = job.begin()
    bench.execute()
    bench.turns(1)
    tally = job.monitor.tally
    tally.captured = frozenset({CollectionId(("public", EVIL))})
    job.monitor.record(7, [Answer(EVIL, EVIL, Outcome.REJECTED, EVIL + "\x1b[31m")])
    tally.failures[EVIL] += 1
    job.monitor.show = lambda _position: EVIL
    with job.served() as client:
        page = client.get("/")

    assert "<script>alert" not in page.text
    assert "\x1b" not in page.text
    assert page.text.count("&lt;script&gt;") >= 5
    Outline(page.text)


def test_no_key_of_a_row_is_shown(job: WatchedJob):
    bench = job.begin()
    bench.database.commit(Change(CollectionId(("public", "t")), 771_177, "confidential"))
    bench.execute()
    bench.turns(2)
    text = "public.t not read: gone; missing: keys after (771177); the same signal again reads just that"
    facts = {"missing": ["keys after (771177)"], "ranges": 1}
    job.monitor.record(7, [Answer("0/1", "s", Outcome.FAILED, text, facts=facts)])
    with job.served() as client:
        page = client.get("/")

    assert "771177" not in page.text
    assert "confidential" not in page.text
    assert "1 ranges are missing" in page.text


def test_buttons_send_signals_that_the_job_obeys_and_answers(job: WatchedJob):
    bench = job.begin()
    bench.turns(1)
    with job.served() as client, job.turning():
        fields = {"csrf": csrf(client.get("/")), "type": "pause"}
        paused = client.post("/signals", fields, Accept="application/json")
        assert (paused.status, paused.json["text"][:9]) == (200, "accepted:")
        executed = client.post(
            "/signals", fields | {"type": "execute", "exact": '"public"."t"'}, Accept="application/json"
        )
        assert "incremental snapshot of public.t" in executed.json["text"]
        page = client.get("/")
        assert 'aria-label="resume public.t"' in page.text
        assert 'value="&quot;public&quot;.&quot;t&quot;"' in page.text
        client.post("/signals", fields | {"type": "resume", "exact": '"public"."t"'})
        for _ in range(1000):
            if "finished" in (answers := client.get("/sections").json["answers"]):
                break
    assert "public.t completed: 5 rows read" in answers


def test_a_form_without_script_leads_back_to_the_page_with_its_answer(job: WatchedJob):
    job.begin().turns(1)
    with job.served() as client, job.turning():
        fields = {"csrf": csrf(client.get("/")), "type": "execute", "collections": "public.nothing, public.t"}
        sent = client.post("/signals", fields)
        assert sent.status == 303
        back = client.get("/" + sent.headers["Location"].removeprefix("./"))
    assert re.search(r'id="said"[^>]*>(rejected|accepted): ', back.text)


@pytest.mark.parametrize(
    ("changed", "headers", "status"),
    [
        ({"csrf": "forged"}, {}, 403),
        ({}, {"Origin": "http://evil.example"}, 403),
        ({}, {"Sec_Fetch_Site": "cross-site"}, 403),
        ({}, {"Host": "evil.example"}, 421),
        ({}, {"Content_Type": "text/plain"}, 403),
        ({"type": "drop"}, {}, 409),
    ],
)
def test_what_is_not_our_page_sends_no_signal(
    job: WatchedJob, changed: dict[str, str], headers: dict[str, str], status: int
):
    bench = job.begin()
    bench.turns(1)
    with job.served() as client:
        fields = {"csrf": csrf(client.get("/")), "type": "pause", **changed}
        assert client.post("/signals", fields, **headers).status == status
    bench.turns(2)
    assert bench.answers == []


def test_a_job_that_has_not_begun_takes_no_signal(job: WatchedJob):
    with job.served() as client:
        fields = {"csrf": csrf(client.get("/")), "type": "pause"}
        refused = client.post("/signals", fields, Accept="application/json")
    assert (refused.status, "takes no signals yet" in refused.json["text"]) == (409, True)


def test_without_permission_there_are_no_buttons_and_no_signals(tmp_path: Path):
    job = WatchedJob(tmp_path, tidemark_http_port="0")
    bench = job.begin()
    bench.execute(BOTH)
    bench.turns(1)
    with job.served() as client:
        assert "<form" not in client.get("/").text
        assert client.post("/signals", {"type": "pause"}).status == 403


def test_the_page_needs_the_token(tmp_path: Path):
    token = "a-token-that-nobody-knows"
    job = WatchedJob(tmp_path, tidemark_http_port="0", tidemark_http_token=token)
    job.begin().turns(1)
    with job.served() as client:
        for path in ("/", "/sections", "/page.js", "/metrics"):
            assert client.get(path).status == 401
            assert client.get(path, Authorization=f"Bearer {token}").status == 200


def test_a_long_queue_is_shown_in_part(job: WatchedJob):
    bench = job.begin()
    bench.execute()
    bench.turns(1)
    seen = job.monitor.tally.seen
    assert seen is not None
    table = seen.state.snapshot.tables[0]
    object.__setattr__(seen.state.snapshot, "tables", (table,) * 250)
    with job.served() as client:
        shown = client.get("/sections").json["collections"]
    assert shown.count("<tr>") == 201
    assert "and 50 more" in shown


def test_answers_of_earlier_processes_are_recalled_and_what_is_damaged_is_left_out(job: WatchedJob):
    told = {
        "turn": 7,
        "at_s": 12.5,
        "label": "0/1",
        "id": "nightly",
        "outcome": "finished",
        "text": "all done",
    }
    job.monitor.recall([told, told | {"outcome": "of another release"}, {"turn": 8}])
    with job.served() as client:
        shown = client.get("/sections").json["answers"]

    assert len(job.monitor.answers) == 1
    assert "nightly: all done" in shown
    assert "00:00:12 UTC" in shown
