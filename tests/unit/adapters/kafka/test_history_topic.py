"""The schema history's topic, without a broker."""

from __future__ import annotations

import pytest

from adapters.kafka.history_topic import TopicStore
from adapters.sqlserver.settings import HistoryKind, HistorySettings
from engine.errors import SourceError


def test_a_record_too_large_for_the_producer_is_told_of_with_the_topic(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(TopicStore, "_ensure", lambda _store: None)
    monkeypatch.setattr("adapters.kafka.history_topic._TIMEOUT_S", 0.1)
    client = {"bootstrap.servers": "127.0.0.1:1", "message.max.bytes": "1000"}
    store = TopicStore(HistorySettings(HistoryKind.KAFKA, topic="history", producer=client))

    with pytest.raises(
        SourceError, match=r"^kafka topic history: .* can't be written: .*[Mm]essage size too large"
    ):
        store.append([b"x" * 2000])
