"""`tidemark import-offsets`: makes the state that a job begins with of where a Debezium connector stopped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Protocol, cast

import orjson
import typer

from adapters.cli.checkpoint_change import beginning
from adapters.cli.exits import exit_codes
from adapters.kafka.properties import producer_client
from adapters.source.commands import offered
from adapters.source.debezium.java_objects import MOST_BYTES
from adapters.source.debezium.offsets import for_prefix, newest, offsets_in
from engine.config import load, read
from engine.errors import ConfigError, StateError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adapters.source.debezium.offsets import StoredOffset
    from engine.config import Settings
    from engine.job.saved.state import State

_TOPIC: Final = "topic:"


class StateOf(Protocol):
    """Makes a source's first state of Debezium's offsets."""

    def __call__(self, settings: Settings, stored: Sequence[StoredOffset]) -> State:
        """The state to begin with. Raises StateError, which says what to do, and SourceError."""


def import_offsets(
    config: Annotated[str, typer.Argument(help="a .properties, .json or .yaml file")],
    file: Annotated[str, typer.Argument(help="offsets as JSON, Debezium's offset file, or topic:NAME")],
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> None:
    """Let the job of CONFIG continue where a Debezium connector stopped. Stop the connector first.

    FILE has the connector's offsets in one of these forms: the file of FileOffsetBackingStore, the records of
    Kafka Connect's offset topic as kafka-console-consumer prints them with their keys, the answer of
    GET /connectors/NAME/offsets, or a single offset. topic:NAME reads the topic itself from the brokers of
    CONFIG. An existing state is never replaced.

    Example: tidemark import-offsets shop.properties /var/lib/debezium/offsets.dat

    Example: tidemark import-offsets shop.properties topic:connect-offsets
    """
    with exit_codes(config):
        settings = read(config)
        stored = for_prefix(_read_stored(settings, config, file), settings.events.topic_prefix)
        with beginning(settings) as checkpoint:
            state = _maker(settings)(settings, stored)
            checkpoint.write(state)
        _show(settings, state, as_json=as_json)


def _read_stored(settings: Settings, config: str, file: str) -> list[StoredOffset]:
    if file.startswith(_TOPIC):
        return _in_topic(settings, config, file.removeprefix(_TOPIC))
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise StateError(error.strerror or str(error), where=file) from error
    if len(data) > MOST_BYTES:
        raise StateError(f"has more than {MOST_BYTES} bytes", where=file, hint="is it a file of offsets?")
    return offsets_in(data, file)


def _in_topic(settings: Settings, config: str, topic: str) -> list[StoredOffset]:
    from adapters.kafka.offsets_topic import records  # noqa: PLC0415  librdkafka is large

    client: Mapping[str, str] = settings.signals.topic.client
    client = client if "bootstrap.servers" in client else producer_client(load(config))
    if "bootstrap.servers" not in client:
        raise ConfigError(
            "the configuration names no brokers", hint="set bootstrap.servers, or give the offsets as a file"
        )
    try:
        return newest(records(topic, client))
    except ValueError as error:
        raise StateError(f"holds no offsets: {error}", where=topic) from error


def _maker(settings: Settings) -> StateOf:
    module = offered(settings, "debezium_offset")
    if module is None:
        raise ConfigError("offsets of this source's connector can't be imported")
    return cast("StateOf", module.state_of)


def _show(settings: Settings, state: State, *, as_json: bool) -> None:
    left = [str(table.target.collection) for table in state.snapshot.tables]
    incomplete = [str(known) for known in state.incomplete]
    position = None if state.position is None else list(state.position.order)
    if as_json:
        said = {"position": position, "snapshots": left, "incomplete": incomplete}
        typer.echo(orjson.dumps(said).decode())
        return
    typer.echo(f"the job of {settings.name} goes on at {position}")
    for name in left:
        typer.echo(f"snapshot of {name}: goes on")
    for lack in incomplete:
        typer.echo(f"incomplete: {lack}")
    typer.echo("keep slot.name and topic.prefix, leave the connector stopped, and start: tidemark run")
