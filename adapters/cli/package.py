"""The command `tidemark package`: the archive that gives a cluster's executors the application."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import orjson
import typer

from adapters.cli.exits import exit_codes
from adapters.spark.cluster.archive import DIRECTORY, default_name, write_archive


def package(
    archive: Annotated[
        str, typer.Argument(help="file to write; in a directory, the name is made of platform and version")
    ] = ".",
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> None:
    """Pack the application and its dependencies for executors that have only Spark and Python.

    Example: tidemark package build/
    """
    path = Path(archive)
    path = path / default_name() if path.is_dir() else path
    with exit_codes(str(path)):
        size = write_archive(path)
    if as_json:
        typer.echo(orjson.dumps({"archive": str(path), "bytes": size}).decode())
        return
    typer.echo(f"{path}: {size >> 20} MB")
    typer.echo(f"  tidemark run    tidemark.spark.archive={path}")
    typer.echo(
        f"  spark-submit    --archives {path}#{DIRECTORY} --conf spark.executorEnv.PYTHONPATH={DIRECTORY}"
    )
