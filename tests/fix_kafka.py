"""Fixtures: a Kafka broker for the session, a name for a topic per test."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.kafka import KafkaBroker

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """A broker, for the whole session; topics are not made by themselves."""
    # Imported here, so that tests without Kafka do not pay for it.
    from tests.servers.kafka import KafkaBroker  # noqa: PLC0415

    with KafkaBroker() as broker:
        yield broker


@pytest.fixture
def topic() -> str:
    """A topic's name that no other test uses."""
    return f"topic-{next(_numbers)}"
