"""Mutants that change nothing that anyone could observe, each with its proof."""

from __future__ import annotations

_COMPACTION = (
    "balances of the same entries, merged sooner, later or never: `sum_balances` gives, for each row, the sum"
    " and the lowest running sum, and both are the same however consecutive entries were grouped before"
)
_NO_KEYS = (
    "no keys name nothing: `pc.is_in` marks no row, and where no row is marked the result is None as well"
)
_NO_ARRAYS = "no arrays, put together with the key's type, are an empty array of that type"
_FORGOTTEN = (
    "`Throttle.keep_charge` forgets what was planned under a window's id; only `Throttle.correct_charge` of"
    " the same id would read it, a window that was given up is never read, and no id comes again"
)
_ASKED_AGAIN = (
    "the next step asks for the lease before it writes, `load` raises LeaseLost where a newer epoch has saved"
    " a state, and what a job promotes or discards before that has its own epoch and counts as the sink says"
)
_REPLACED = (
    "a sink that knows its turns says no again at every start, and the state is replaced when its turn is"
    " saved anew, before that is committed; only people who look at the files see it"
)
_LISTED_LATER = (
    "`promote` lists the directory where the promoted turns are not known; a list from before this start"
    " lacks turns of other jobs, so that fewer than all old states are removed, which are for people alone"
)
_FOUND_PROMOTED = (
    "the rename fails where the file is gone, and then the turn is found promoted; one old state fewer is"
    " kept, and those are for people alone"
)
_FOUND_LATER = (
    "a StateError ends the session: the next one finds the turn promoted, or the lease lost, and goes on as"
    " it would have"
)
_KEPT_PENDING = (
    "`newest` discards a state only for a sink that knows its turns, and it says no again at every start; a"
    " refused turn takes no span, so that `after_attempt` finds no newer position in its state; the state is"
    " replaced when its turn is saved anew"
)
_SLEPT_LATER = (
    "the pending state is gone because another job has settled a turn that was committed, as if this job had"
    " slept just after its promotion: it tells the turn's answers, which it may then as well, and the next"
    " step asks for the lease; of what it removes, no state of the other job refers to anything"
)
_NOTHING_DUE = (
    "only a sink that sends rows again has something due for what is on its way: Kafka's, which"
    " `test_sending` checks; the simulated one has not"
)
_REMOVED_AGAIN = "old states are removed again at each promotion, and removing what is gone does nothing"
EQUIVALENT: dict[str, str] = {
    "state.FileStateStore.promote: never: turn in promoted": _FOUND_PROMOTED,
    "state.FileStateStore.promote: always: self._storage.exists(source)": _FOUND_LATER,
    "state.FileStateStore.promote: dropped: self._promoted = self._promoted[-KEPT:]": _REMOVED_AGAIN,
    "state.FileStateStore.discard: dropped: self._storage.delete("
    "state_name(turn, self._epoch))": _KEPT_PENDING,
    "state.FileStateStore.promote: dropped: self._check_promoted(turn, error)": _SLEPT_LATER,
    "startup.newest: dropped: job_parts.lease.check()": _ASKED_AGAIN,
    "startup.newest: dropped: store.discard(pending.turn)": _REPLACED,
    "state.FileStateStore.load: dropped: self._promoted = promoted": _LISTED_LATER,
    "merge.SupersededKeys.__or__: always: len(parts) < _COMPACTED": _COMPACTION,
    "merge.SupersededKeys.__or__: never: len(parts) < _COMPACTED": _COMPACTION,
    "merge.SupersededKeys.__or__: boundary: len(parts) < _COMPACTED": _COMPACTION,
    "merge.SupersededKeys.of: always: arrays": _NO_ARRAYS,
    "merge.NewerKeys.survivors: never: not len(self.keys) or not len(keys)": _NO_KEYS,
    "merge.NewerKeys.survivors: both: not len(self.keys) or not len(keys)": _NO_KEYS,
    "windows_in_progress.WindowsInProgress.give_up: dropped: "
    "self._size.note_given_up(opened.window)": _FORGOTTEN,
    "windows.Windows.poll: dropped: opened.beside.poll()": _NOTHING_DUE,
}
"""By name (`Mutant.name`)."""
