"""Histories on MongoDB that are not drawn: a server that is put back to older files."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.torture.documents import DATABASE, act
from tests.torture.oracle import Violation
from tests.torture.over import Over

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.mongodb import MongoServer
    from tests.torture.journal import JournalReader
    from tests.torture.mongo_site import MongoSite
    from tests.torture.play import Play
    from tests.torture.statements import Step

_PATIENCE_S = 60.0


def restored(stage: Play, site: MongoSite, journal: JournalReader) -> None:
    """Changes are streamed, nothing happens for a while, and the server's files become those of before."""
    (server,) = site.server.members
    _streamed(stage, site, journal, ["put", 0, [1, 2, 3]])
    copy = server.put_aside()
    _streamed(stage, site, journal, ["touch", 0, [1]], ["put", 0, [1001, 1002]], ["remove", 0, [2]])
    note = site.client.admin.command("appendOplogNote", 1, data={"idle": True})["operationTime"]
    _until(lambda: _at(site, journal, note), stage, journal, "the idle time is saved")
    server.put_back(copy)
    _put(site, ["put", 0, [2001]])
    _ended(server, journal)
    site.oracle.happened["servers put back to older files"] += 1
    raise Over


def _ended(server: MongoServer, journal: JournalReader) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not journal.of("died"):
        if time.monotonic() > until:
            raise Violation("the job goes on with a log that is another one")
        time.sleep(0.05)
    (died,) = journal.of("died")
    if "put back to an older copy" not in died["error"] or not server.running:
        raise Violation(f"the job died otherwise than of older files: {died['error']}")


def _put(site: MongoSite, *steps: Step) -> None:
    for step in steps:
        shape = site.script.tables[step[1]]
        act(step, shape, site.client[DATABASE][shape.name], None)


def _streamed(stage: Play, site: MongoSite, journal: JournalReader, *steps: Step) -> None:
    """Do this, and wait until all of it has been streamed."""
    _put(site, *steps)
    mark = site.mark()
    _until(
        lambda: any(site.passed(note["position"], mark) for note in journal.of("turn")[-1:]),
        stage,
        journal,
        "the log is streamed",
    )


def _at(site: MongoSite, journal: JournalReader, stamp: Any) -> bool:
    end = (stamp.time << 32) + stamp.inc
    return any(site.passed(note["position"], end) for note in journal.of("turn")[-1:])


def _until(condition: Callable[[], bool], stage: Play, journal: JournalReader, what: str) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not condition():
        stage.watch(journal)
        if time.monotonic() > until:
            raise Violation(f"not within {_PATIENCE_S} s: {what}")
        time.sleep(0.02)


SCENES: dict[str, Callable[[Play, MongoSite, JournalReader], None]] = {"restored": restored}


def play_scene(name: str, stage: Play, site: MongoSite, journal: JournalReader) -> None:
    """Play a scene, once the job runs."""
    _until(lambda: bool(journal.of("started")), stage, journal, "the job is started")
    SCENES[name](stage, site, journal)
