"""What several sinks declare and read in the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.config.properties.row import APPLIED, Property
from engine.config.properties.shapes import choice
from engine.config.sinks.settings import TopicRecreated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.config.properties.values import Values
    from engine.events.settings import EventSettings

RECREATED: Final = Property(
    "tidemark.sink.topic.recreated",
    APPLIED,
    "what to do if a Kafka topic or a sink's table was recreated; its source table is reported as incomplete",
    choice(TopicRecreated),
    "warn",
)


def recreated(values: Values) -> TopicRecreated:
    """The value of this row."""
    return values.get(RECREATED.name, TopicRecreated)


def need_checkpoint(values: Values) -> None:
    """Note a problem if the job saves no state, which a sink that keeps events needs."""
    values.need("tidemark.checkpoint", "a directory or URI for the job's saved state")


def inexact_copies(events: EventSettings) -> Iterator[str]:
    """What keeps a sink's tables from being equal to the source's."""
    if skipped := sorted(events.skipped_operations & {"c", "u", "d", "t"}):
        yield (
            f"'skipped.operations' leaves out {', '.join(skipped)}: the sink's tables won't follow them;"
            " set it to none for exact copies"
        )
