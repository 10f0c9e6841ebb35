"""What `tidemark run` says first: five lines on where the job reads, writes and can be looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.storage.checkpoint_reader import CheckpointReader
from engine.config.text.hidden import without_secrets
from engine.errors import StateError

if TYPE_CHECKING:
    from engine.config import Settings
    from engine.config.web_settings import HttpSettings


def first_screen(settings: Settings) -> list[str]:
    """Source, sink, position, page, metrics. Connects to nothing but the checkpoint."""
    page = _address(settings.http)
    return [
        f"source    {_source(settings)}",
        f"sink      {settings.sink.shown}",
        f"position  {_position(settings)}",
        f"page      {f'{page}/' if page else 'off, see tidemark.http.port'}",
        f"metrics   {f'{page}/metrics' if page else 'off, see tidemark.http.port'}",
    ]


def _source(settings: Settings) -> str:
    kind = settings.runs.removesuffix(".job").rpartition(".")[2]
    return (
        f"{kind} {getattr(settings.source, 'address', '')}".rstrip()
        + f", topics {settings.events.topic_prefix}.*"
    )


def _position(settings: Settings) -> str:
    place = settings.job.checkpoint
    if not place:
        return "none: no tidemark.checkpoint is set, and the state is lost at the end"
    shown = without_secrets(place)
    try:
        reader = CheckpointReader(place)
        saved, figures = reader.newest(), reader.figures()
    except StateError:
        return f"unknown until the job has read {shown}"  # which reports what is wrong
    if saved is None:
        return f"at the beginning, nothing is saved in {shown}"
    at = f"{figures.position}, " if figures and figures.turn == saved.state.turn else ""
    return f"{at}turn {saved.state.turn} in {shown}"


def _address(http: HttpSettings) -> str:
    """Where the job's port will be; empty if there is none."""
    if http.port < 0:
        return ""
    host = f"[{http.host}]" if ":" in http.host else http.host
    port = f":{http.port}" if http.port else ":(any free port)"
    return f"{'https' if http.certificate else 'http'}://{host}{port}"
