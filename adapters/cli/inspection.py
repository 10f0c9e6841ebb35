"""Looking at a database from commands: `tidemark init`, and `tidemark check --connect`."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import orjson
import typer

from adapters.cli.exits import FAILED, exit_codes
from adapters.source.commands import offered
from engine.config import parse
from engine.config.registry import BUILT_IN, SINKS
from engine.config.text.hidden import is_secret, without_secrets
from engine.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from urllib.parse import SplitResult

    from engine.config import Settings
    from engine.config.findings import Distance, Finding
    from engine.model import Position

_VARIABLE: Final = "TIDEMARK_PASSWORD"
_LIKE: Final = "such as postgresql://tidemark@db/shop"
_COMMENTS: Final = {
    "connector.class": "which database this is",
    "database.password": "taken from the environment whenever a connection is made",
    "mongodb.password": "taken from the environment whenever a connection is made",
    "topic.prefix": "topics are named prefix.schema.table",
    "signal.data.collection": "insert rows here to request snapshots; leave it out to use a file or a topic",
    "tidemark.sink": f"one of {', '.join(BUILT_IN[SINKS])}; kafka needs bootstrap.servers",
    "tidemark.sink.files.dir": "must be empty at the first start",
    "tidemark.checkpoint": "what the job saves; keep it as long as the job",
}


def init(
    url: Annotated[
        str,
        typer.Argument(help="postgresql://USER:PASSWORD@HOST:PORT/DATABASE, mongodb://… or sqlserver://…"),
    ],
    file: Annotated[Path, typer.Option("--file", help="the configuration to write; must not exist")] = Path(
        "tidemark.properties"
    ),
    apply: Annotated[
        bool, typer.Option("--apply", help="run the statements that fix what is missing")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> None:
    """Inspect the database behind URL, write a commented configuration, and print what is missing.

    The statements that would fix what is missing are printed, too; --apply runs them. The password is not
    written: the configuration takes it from the environment variable TIDEMARK_PASSWORD. If URL has no
    password, this command takes it from there, too. Other secrets in URL are refused.

    The exit code is 1 if the database lacks something.

    Example: tidemark init postgresql://tidemark@db.example.com/shop --apply

    Example: tidemark init mongodb://tidemark@db.example.com:27017/shop --file shop.properties --json
    """
    with exit_codes(_shown(url)):
        said, password = properties_of(url, dict(os.environ))
        given = {name: password if value == _reference() else value for name, value in said.items()}
        seen = look_at(parse(given), apply=apply)
        _write(file, said)
        if as_json:
            typer.echo(orjson.dumps({"file": str(file), **asdict(seen)}, option=orjson.OPT_INDENT_2).decode())
        else:
            for line in seen.lines():
                typer.echo(line)
            typer.echo(f"wrote {file}; set {_VARIABLE}, look at it, and start: tidemark run {file}")
    if seen.missing:
        raise typer.Exit(FAILED)


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at a server has found, after the statements in `ran` were run."""

    findings: Sequence[Finding]
    ran: Sequence[Finding] = ()

    @property
    def missing(self) -> list[Finding]:
        """What is still missing."""
        return [finding for finding in self.findings if finding.missing]

    def lines(self) -> Iterator[str]:
        """What is said of it, the missing statements last."""
        for done in self.ran:
            yield f"ran: {done.statement}{'; restart the server' if done.restart else ''}"
        for finding in self.findings:
            yield f"{'missing' if finding.missing else 'ok     '}  {finding.text}"
        for finding in self.missing:
            if finding.statement:
                yield f"{finding.statement};{'  -- and restart the server' if finding.restart else ''}"


def look_at(settings: Settings, *, apply: bool = False) -> Look:
    """Look at the server of these settings; with `apply`, run what is missing and look again."""
    inspection = _inspection(settings)
    found: list[Finding] = inspection.inspect(settings)
    if not apply or not hasattr(inspection, "mend"):
        return Look(found)
    ran = [finding for finding in found if finding.missing and finding.statement]
    for finding in ran:
        inspection.mend(settings, finding.statement)
    return Look(inspection.inspect(settings), ran)


def distance_of(settings: Settings, position: Position | None) -> Distance:
    """How far the server's log is ahead of a saved position. Raises ConfigError or SourceError."""
    found: Distance = _inspection(settings).distance(settings, position)
    return found


def _inspection(settings: Settings) -> Any:
    inspection = offered(settings, "inspection")
    if inspection is None:
        raise ConfigError("this source can't be looked at by command")
    return inspection


def _reference() -> str:
    return f"${{env:{_VARIABLE}}}"


def properties_of(url: str, environment: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """The properties for a URL, with a reference to the password, and the password itself.

    Raises ConfigError for a URL that can't be read, or that has another secret than the password.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ConfigError("the URL's host can't be read", hint=_LIKE) from error
    if ";" in parts.path:
        raise ConfigError("the URL has properties after ';', which are not read", hint=_LIKE)
    database, user = unquote(parts.path.lstrip("/")), unquote(parts.username or "")
    password = unquote(parts.password or "") or environment.get(_VARIABLE, "")
    match parts.scheme:
        case "postgresql" | "postgres":
            said = _relational("PostgresConnector", parts, 5432)
            said |= {"database.dbname": database, "plugin.name": "pgoutput"}
            options = dict(parse_qsl(parts.query))
            password = options.pop("password", password)
            _refuse_secrets(name for name, value in options.items() if is_secret(f"database.{name}", value))
            said |= {f"database.{name}": value for name, value in options.items()}
            signals = "public.tidemark_signals"
        case "sqlserver" | "mssql":
            said = _relational("SqlServerConnector", parts, 1433)
            said |= {"database.names": database}
            signals = f"{database}.dbo.tidemark_signals"
        case "mongodb" | "mongodb+srv":
            at = parts.netloc.rpartition("@")[2]
            query = f"?{parts.query}" if parts.query else ""
            _refuse_secrets(name for name, value in parse_qsl(parts.query) if _hides(name, value))
            said = {"connector.class": "MongoDbConnector"}
            said |= {"mongodb.connection.string": f"{parts.scheme}://{at}/{query}"}
            said |= {"mongodb.user": user, "mongodb.password": _reference()} if user else {}
            signals = f"{database or 'tidemark'}.signals"
        case _:
            raise ConfigError(
                f"no database is known by {parts.scheme!r}",
                hint="use postgresql://, mongodb:// or sqlserver://",
            )
    return {**said, **_own(database or "tidemark", signals)}, password


def _hides(name: str, value: str) -> bool:
    option = f"{name}={value}"
    return without_secrets(option) != option


def _refuse_secrets(names: Iterable[str]) -> None:
    """Raise ConfigError if the URL's query has secrets, which would be written into the configuration."""
    if found := sorted(names):
        raise ConfigError(
            f"the URL's {', '.join(map(repr, found))} would be written into the configuration as it is",
            hint="leave it out of the URL, and add it to the file as a reference, such as ${env:NAME}",
        )


def _shown(url: str) -> str:
    """A URL's host and path, as an error may name them; `the URL` where a secret may be among them."""
    user, at, place = url.partition("://")[2].rpartition("@")
    # A password in the query may contain an @, and one before the host a question mark.
    if not at or re.search("[?;#]", user):
        return "the URL"
    return re.split("[?;#]", place)[0]


def _relational(connector: str, parts: SplitResult, usual_port: int) -> dict[str, str]:
    try:
        host, port = parts.hostname or "", parts.port or usual_port
    except ValueError as error:
        raise ConfigError("the URL's port is no number") from error
    if not host or not parts.username:
        raise ConfigError("the URL needs a user and a host", hint=_LIKE)
    return {
        "connector.class": connector,
        "database.hostname": host,
        "database.port": str(port),
        "database.user": unquote(parts.username),
        "database.password": _reference(),
    }


def _own(name: str, signals: str) -> dict[str, str]:
    return {
        "topic.prefix": name,
        "signal.data.collection": signals,
        "tidemark.sink": "files",
        "tidemark.sink.files.dir": f"{name}-events",
        "tidemark.checkpoint": f"{name}-state",
    }


def _write(file: Path, said: Mapping[str, str]) -> None:
    lines: list[str] = []
    for name, value in said.items():
        lines += [f"# {_COMMENTS[name]}"] if name in _COMMENTS else []
        lines.append(f"{name}={value}")
    try:
        with file.open("x") as out:
            out.write("\n".join(lines) + "\n")
    except OSError as error:
        raise ConfigError(f"can't write {str(file)!r}: {error.strerror}") from error
