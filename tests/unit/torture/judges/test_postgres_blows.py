"""The judge of PostgreSQL: what is set aside is counted; what a new server lacks ends a job that sent it."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.servers.postgres import Database, PostgresServer
from tests.torture.emitted import Emitted
from tests.torture.journal import Journal, JournalReader
from tests.torture.moving import MovingSite, _checkpoint, _fork
from tests.torture.oracle import Table, Violation
from tests.torture.postgres_oracle import PostgresOracle
from tests.torture.script import Script
from tests.torture.truth import Entry

T, U = "public.t", "public.u"
FORK = 100


def oracle() -> PostgresOracle:
    types = {"k": "integer", "ver": "bigint"}
    return PostgresOracle({name: Table(name, ("k",), dict(types)) for name in (T, U)})


def made(table: str, key: int, place: int) -> Entry:
    return Entry(9, "c", (table,), new={"k": str(key), "ver": str(key)}, place=place, end=place + 1)


def told(table: str, key: int, place: int) -> Emitted:
    return Emitted(1, table, "c", None, {"k": key, "ver": key}, 9, place=place)


def rows(*keys: int) -> list[dict[str, str | None]]:
    return [{"k": str(key), "ver": str(key)} for key in keys]


ENTRIES = [made(T, 1, 10), made(T, 2, 20), made(U, 1, 30), made(T, 3, 40)]


class TestSetAside:
    """A table of which nobody can decode the log."""

    def judged(self, incomplete: frozenset[str], letters: int, *emitted: Emitted) -> PostgresOracle:
        judge = oracle()
        judge.disguised = {T}
        judge.follow(ENTRIES, emitted)
        assert judge.left() == []
        judge.incomplete, judge.letters = incomplete, {T: letters}
        judge.settle(U, rows(1))
        judge.settle(T, rows(1, 2, 3))
        return judge

    def test_what_is_kept_and_said_is_right(self):
        judge = self.judged(frozenset({T}), 2, told(T, 1, 10), told(U, 1, 30))

        assert judge.kept[T] == 2

    def test_fewer_letters_than_entries_are_a_violation(self):
        with pytest.raises(Violation, match=r"2 entries of public\.t were not emitted, the job has kept 1"):
            self.judged(frozenset({T}), 1, told(T, 1, 10), told(U, 1, 30))

    def test_so_is_a_word_that_is_missing(self):
        with pytest.raises(Violation, match="leave out 2 rows"):
            self.judged(frozenset(), 0, told(T, 1, 10), told(U, 1, 30))

    def test_the_tables_beside_it_are_judged_as_ever(self):
        judge = oracle()
        judge.disguised = {T}
        with pytest.raises(Violation, match="the log goes on with c of"):
            judge.follow(ENTRIES, [told(T, 1, 10), told(T, 3, 40)])

    def test_once_it_is_whole_again_it_is_no_exception_any_more(self):
        read = Emitted(2, T, "r", None, {"k": 3, "ver": 3}, None)
        judge = self.judged(
            frozenset(), 0, told(T, 1, 10), told(T, 2, 20), told(U, 1, 30), told(T, 3, 40), read
        )

        assert judge.disguised == set()


class TestMoved:
    """A server whose place another one has taken."""

    @pytest.fixture
    def site(self, tmp_path: Path) -> MovingSite:
        server = PostgresServer(18, data_dir=tmp_path)
        site = MovingSite(Script("s", [], [], moves="standby"), server, Database(server, "d"), oracle())
        site.fork, site.lost = FORK, [made(T, 2, 120)]
        site._old = [made(T, 1, 50)]
        return site

    @pytest.fixture
    def journal(self, tmp_path: Path) -> JournalReader:
        own = Journal(tmp_path / "journal")
        own.note("turn", position=[130, 0])
        own.close()
        return JournalReader(tmp_path / "journal")

    def test_a_job_that_has_sent_what_is_lost_may_end(self, site: MovingSite, journal: JournalReader):
        site.judge_end("PositionLost: promoted", [told(T, 1, 50), told(T, 2, 120)], journal)

        assert all(site.may_end(f"{name}: it") for name in ("PositionLost", "LogRemoved", "OtherHistory"))
        assert not site.may_end("InvariantError: promoted")

    def test_one_that_has_not_must_go_on(self, site: MovingSite, journal: JournalReader):
        with pytest.raises(Violation, match="nothing was sent that the server lacks now"):
            site.judge_end("PositionLost: promoted", [told(T, 1, 50)], journal)

    def test_what_the_new_server_has_done_must_not_be_sent_before(self, site, journal):
        with pytest.raises(Violation):
            site.judge_end(
                "PositionLost: promoted", [told(T, 1, 50), told(T, 2, 120), told(T, 7, 130)], journal
            )

    def test_no_place_in_the_old_log_is_one_in_the_new(
        self, site: MovingSite, journal: JournalReader, tmp_path
    ):
        site._journal, site._before = journal, 1
        own = Journal(tmp_path / "journal")

        assert not site.passed([130, 0], 120)
        own.note("opened")
        assert not site.passed([130, 0], 120)
        own.note("turn", position=[130, 0])
        assert site.passed([130, 0], 120)
        own.close()

    def test_a_log_that_no_slot_can_decode_may_end_a_job(self, site, journal, monkeypatch):
        says = 'SourceError: could not map filenumber "base/5/16384" to relation OID'

        def undecodable(_site: MovingSite) -> list[Entry]:
            raise psycopg.errors.InternalError_(says)

        monkeypatch.setattr(MovingSite, "entries", undecodable)
        site.judge_end(says, [], journal)

        assert site.may_end(says)
        assert site.oracle.happened["log that the server can't decode"] == 1

    def test_one_that_the_judge_can_decode_may_not(self, site, journal, monkeypatch):
        monkeypatch.setattr(MovingSite, "entries", lambda _site: ENTRIES)

        with pytest.raises(Violation, match="the server decodes its log"):
            site.judge_end("SourceError: could not map filenumber", [], journal)

    def test_where_a_server_forked_is_read_in_its_files(self, tmp_path: Path):
        server = PostgresServer(18, data_dir=tmp_path)
        wal = server.pgdata / "pg_wal"
        wal.mkdir(parents=True)
        (wal / "00000002.history").write_text("1\t1/30002A0\tno recovery target specified\n")

        assert _fork(server) == (1 << 32) + 0x30002A0
        assert _checkpoint("Latest checkpoint location:           0/1C6C2B0\n") == 0x1C6C2B0
