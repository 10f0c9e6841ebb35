"""`tidemark certificate`: print the certificates of a signal's snapshots."""

from __future__ import annotations

from typing import Annotated

import typer

from adapters.cli.exits import exit_codes
from adapters.storage.certificate_files import DIRECTORY, certificates_of
from adapters.storage.checkpoint_reader import CheckpointReader, checkpoint_of
from engine.config import read
from engine.errors import StateError


def certificate(
    config: Annotated[str, typer.Argument(help="a .properties, .json or .yaml file")],
    id_: Annotated[str, typer.Argument(metavar="ID", help="the signal's id, or its label in the answers")],
) -> None:
    """Print the certificates of the snapshots that signal ID requested, one JSON document per line.

    Each collection that was read completely has one. This works whether the job is running or not.

    Example: tidemark certificate orders.properties nightly-1 | jq .rows
    """
    with exit_codes(config):
        settings = read(config)
        checkpoint_of(settings)  # says what is wrong with the settings
        reader = CheckpointReader(f"{(settings.job.checkpoint or '').rstrip('/')}/{DIRECTORY}")
        found = list(certificates_of(reader, id_))
        if not found:
            raise StateError(
                f"there is no certificate of a signal {id_!r}",
                where=reader.location,
                hint="a snapshot gets one when it ends, unless tidemark.certificate=off",
            )
        for line in found:
            typer.echo(line)
