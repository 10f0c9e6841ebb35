"""The certificates of a job's snapshots: what each window adds, and when one is issued and kept.

A certificate is issued in the turn that emits a collection's last rows. The turn's state has it, so a crash
before it is written loses nothing: the next start finds it there and writes it under the same name.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from engine.verify.certificate import Circumstances, certificate
from engine.verify.certified_ranges import CertifiedRange, CertifiedRanges, Frontier, shown, sum_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from engine.job.reports.collection_notices import CollectionNotices
    from engine.job.saved.state import State
    from engine.job.snapshots.emission import EmissionResult
    from engine.model import Position, Run, StagedRun
    from engine.snapshot.queue_entry import Table
    from engine.verify.verdict import Verdict

_log = logging.getLogger("engine")


class CertificateFiles(Protocol):
    """Where certificates are kept."""

    def keep(self, turn: int, certificates: Sequence[str]) -> None:
        """Keep a turn's certificates. Repeating it changes nothing. Raises StateError."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """Issues the certificates of one job.

    `seed` is that of the rows' digests. `engine` names the release, `now` is Unix time in seconds, `show`
    formats a position.
    """

    seed: int
    engine: str
    files: CertificateFiles
    now: Callable[[], float]
    show: Callable[[Position], str]

    @property
    def shown_seed(self) -> str:
        """The seed in hexadecimal."""
        return f"{self.seed:016x}"

    def sent_ranges(
        self, runs: Mapping[int, Run], results: Iterable[tuple[StagedRun, EmissionResult]], frontier: Frontier
    ) -> CertifiedRanges:
        """What a slice has sent of one collection: its runs by number in the window, and their results."""
        read: Counter[int] = Counter()
        emitted: Counter[int] = Counter()
        sums: dict[int, list[int | None]] = {}
        for staged, result in results:
            read[staged.run] += staged.rows
            emitted[staged.run] += result.rows
            sums.setdefault(staged.run, []).append(result.digest_sum)
        sent = CertifiedRanges(self.shown_seed)
        for number, run in runs.items():
            single = bool(run.keys or run.points)
            part = CertifiedRange(
                read[number], emitted[number], _sum(sums.get(number, [0])), frontier, frontier
            )
            if not single:
                part = replace(
                    part,
                    after=run.after,
                    upto=run.upto,
                    holds_after=run.holds_after,
                    lacks_upto=run.lacks_upto,
                )
            more = CertifiedRanges(self.shown_seed, () if single else (part,), part if single else None)
            sent = sent.with_next(more)
        return sent

    def issue(self, state: State, table: Table, notices: CollectionNotices) -> State:
        """Issue the certificate of an entry that is read to its end; returns the state."""
        progress = table.progress
        sent = progress.certified if progress is not None else None
        if progress is None or (sent is None and progress.rows):
            return self._refused(state, table)
        sent = sent or CertifiedRanges(self.shown_seed)
        if (sent.read, sent.emitted) != (progress.rows, progress.emitted):
            return self._refused(state, table)
        text = certificate(table, sent, self._circumstances(state), state.certificates.last)
        notices.certified(table, text)
        return replace(state, certificates=state.certificates.with_next(text))

    def issue_verdict(
        self, state: State, table: Table, verdict: Verdict, notices: CollectionNotices
    ) -> State:
        """Issue the verdict about an entry, as one of the certificates; returns the state."""
        text = verdict.document(table, self._circumstances(state), state.certificates.last)
        notices.certified(table, text)
        return replace(state, certificates=state.certificates.with_next(text))

    def _circumstances(self, state: State) -> Circumstances:
        return Circumstances(
            self.engine,
            state.identity,
            int(self.now() * 1000),
            self.show(state.position) if state.position else "",
        )

    @staticmethod
    def _refused(state: State, table: Table) -> State:
        """A part of the snapshot was sent without digests, or under another seed."""
        _log.warning(
            "%s gets no certificate: not all of its snapshot was sent with certificates on",
            table.target.collection,
        )
        return state

    def keep_issued(self, state: State) -> State:
        """Keep the certificates that a saved state has issued; returns the state without them."""
        if not state.certificates.issued:
            return state
        self.files.keep(state.turn, state.certificates.issued)
        return replace(state, certificates=state.certificates.written)


def _sum(sums: Sequence[int | None]) -> str | None:
    parts = [CertifiedRange(0, 0, None if total is None else shown(total)) for total in sums]
    return sum_of(parts)
