"""OpenLineage events of a job: which collections it reads, which topics it writes, how its run goes.

    START      the process has begun
    RUNNING    the log is open; again whenever other collections are captured
    COMPLETE   the job was stopped
    FAIL       the job has ended with an error, of which the event has the message without any value

A run is one process. Events are posted by a webhook, which waits for nobody; what it can't deliver is lost.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import orjson

from adapters.release import release
from engine.errors import TidemarkError
from engine.events.names import topic_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from adapters.http.monitor import Monitor
    from engine.config.settings import Settings
    from engine.model import CollectionId

_PRODUCER: Final = "https://pypi.org/project/tidemark"
_SCHEMA: Final = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FACETS: Final = "https://openlineage.io/spec/facets"
_SCHEMES: Final = {"postgres": "postgres", "sql_server": "mssql", "mongodb": "mongodb"}
_MOST_DATASETS: Final = 1_000


class Lineage:
    """Reports one run. Call `look` now and then, and `ended` once at the end.

    `addresses` are the servers of the source.
    """

    def __init__(
        self,
        monitor: Monitor,
        addresses: Sequence[tuple[str, int]],
        post: Callable[[Iterable[str]], None],
    ) -> None:
        self._monitor, self._post = monitor, post
        self._server = ",".join(f"{host}:{port}" for host, port in addresses)
        self._run = monitor.clock.new_id()
        self._told: frozenset[CollectionId] | None = None
        self._tell("START")

    def look(self) -> None:
        """Report the collections if they differ from those last reported."""
        tally = self._monitor.tally
        if tally.sessions and tally.captured != self._told:
            self._told = tally.captured
            self._tell("RUNNING")

    def ended(self, error: BaseException | None) -> None:
        """Tell how the run has ended."""
        self.look()
        if error is None:
            self._tell("COMPLETE")
        else:
            self._tell("FAIL", _failure(error))

    def _tell(self, kind: str, facets: dict[str, Any] | None = None) -> None:
        settings, at = self._monitor.settings, self._monitor.clock.now()
        captured = sorted(self._told or ())[:_MOST_DATASETS]
        event = {
            "eventType": kind,
            "eventTime": datetime.fromtimestamp(at, UTC).isoformat(),
            "run": {"runId": self._run, "facets": {**_engine(), **(facets or {})}},
            "job": {
                "namespace": settings.lineage.namespace,
                "name": settings.name,
                "facets": _facet("jobType", "2-0-3/JobTypeJobFacet", **_JOB),
            },
            "inputs": [self._input(collection) for collection in captured],
            "outputs": _outputs(settings, captured),
            "producer": _PRODUCER,
            "schemaURL": _SCHEMA,
        }
        self._post([orjson.dumps(event).decode()])

    def _input(self, collection: CollectionId) -> dict[str, str]:
        monitor = self._monitor
        database = [monitor.database] if monitor.database else []
        scheme = _SCHEMES.get(monitor.plugin, monitor.plugin)
        return {"namespace": f"{scheme}://{self._server}", "name": ".".join([*database, *collection.parts])}


_JOB: Final = {"processingType": "STREAMING", "integration": "TIDEMARK", "jobType": "CDC"}


def _outputs(settings: Settings, captured: Iterable[CollectionId]) -> list[dict[str, str]]:
    """Where the events of these collections are; nothing if the sink keeps none that have a name."""
    topics = dict.fromkeys(topic_of(collection, settings.events) for collection in captured)
    return [{"namespace": space, "name": name} for space, name in settings.sink.datasets(topics)]


def _failure(error: BaseException) -> dict[str, Any]:
    """Why a run has failed. The text of an error that is not ours may hold a value."""
    said = str(error) if isinstance(error, TidemarkError) else type(error).__name__
    return _facet("errorMessage", "1-0-1/ErrorMessageRunFacet", message=said, programmingLanguage="PYTHON")


def _engine() -> dict[str, Any]:
    return _facet("processing_engine", "1-1-1/ProcessingEngineRunFacet", name="Tidemark", version=release())


def _facet(name: str, schema: str, /, **content: str) -> dict[str, Any]:
    kind = schema.partition("/")[2]
    url = f"{_FACETS}/{schema}.json#/$defs/{kind}"
    return {name: {"_producer": _PRODUCER, "_schemaURL": url, **content}}
