"""References in values, as Kafka Connect's config providers resolve them, and credentials that expire.

    ${env:NAME}          an environment variable
    ${file:path:key}     a key of a .properties file
    ${dir:path:name}     the whole content of a file in a directory, as Kubernetes mounts secrets
    ${cmd:program …}     a program's output, without the last line break
    ${name:path:key}     the value from the entry point `name` of the group tidemark.credentials

Text in `${…}` without a colon is left as it is, as in Kafka Connect. A resolved value keeps its reference:
`resolve_again` asks the provider again, so a credential may change while the job runs.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, Self

from engine.config.text.java import parse_properties
from engine.config.text.mask import MASK, shown_name
from engine.config.text.refusals import refusal_count
from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUP: Final = "tidemark.credentials"
_OWN: Final = ("env", "file", "dir", "cmd")
_REFERENCE = re.compile(r"\$\{(?P<provider>[^}:]*):(?P<rest>[^}]*)\}")
_PROGRAM_S: Final = 30.0
_PRINTED_FOR_S: Final = 5.0
"""How long a program's output is reused, since several connections are opened at once."""
_printed: dict[str, tuple[int, float, str]] = {}
"""By program: how many refusals there had been when it printed, when that was, and what it printed."""


class Hidden(str):
    """Text resolved from a reference. It is a str, but its repr shows nothing.

    `template` is the text with the references, used to resolve it again; empty if it can't be. `trimmed`:
    surrounding blanks are removed. Only the template is pickled, so that no task carries a secret, unless
    `carried` is set.
    """

    __slots__ = ("template", "trimmed")
    template: str
    trimmed: bool
    carried: ClassVar[bool] = False
    """Whether tasks run where the references may lead nowhere: each then has the text, too."""

    def __new__(cls, text: str, template: str = "", *, trimmed: bool = False) -> Self:
        """Create the text with its template."""
        hidden = super().__new__(cls, text)
        hidden.template, hidden.trimmed = template, trimmed
        return hidden

    def __repr__(self) -> str:
        return MASK

    def strip(self, chars: str | None = None, /) -> Hidden:
        """Remove surrounding blanks, keeping the template."""
        return Hidden(super().strip(chars), self.template, trimmed=chars is None)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        if not self.template:
            return Hidden, (str(self),)
        if not self.carried:
            return resolve_now, (self.template, self.trimmed)
        text: str = self
        with suppress(SourceError):
            text = resolve_again(self)
        return resolve_carried, (self.template, self.trimmed, str(text))


class CredentialProvider(Protocol):
    """What an entry point of the group provides. Called at every connection, on executors too."""

    def __call__(self, path: str, key: str) -> str:
        """The value of `${name:path:key}`; `${name:key}` has no path. Raises LookupError if there is none."""


def resolve(
    properties: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Replace every reference. Resolved values are `Hidden`.

    Returns the properties, and one problem for each name that could not be resolved.
    """
    found: dict[str, str] = {}
    problems: dict[str, str] = {}
    for name, value in properties.items():
        try:
            found[name] = _resolve(value, environment)
        except LookupError as exc:
            found[name] = value
            problems[name] = f"{shown_name(name)!r}: {exc.args[0]}"
    return found, problems


def resolve_now(template: str, trimmed: bool = False) -> Hidden:  # noqa: FBT001, FBT002  it is pickled
    """Resolve a value's references now. Raises SourceError if a provider has none."""
    try:
        found = Hidden(_resolve(template, os.environ), template)
    except LookupError as exc:
        raise SourceError(f"can't get a credential: {exc.args[0]}", where="credentials") from exc
    return found.strip() if trimmed else found


def resolve_carried(template: str, trimmed: bool, text: str) -> Hidden:  # noqa: FBT001  it is pickled
    """Resolve a value carried by a task: by the providers here if possible, else as carried."""
    try:
        return resolve_now(template, trimmed)
    except SourceError:
        return Hidden(text)


def resolve_again(value: str) -> str:
    """Resolve a value again by its providers; one that can't change stays as it is. Raises SourceError."""
    if isinstance(value, Hidden) and may_change(value):
        return resolve_now(value.template, value.trimmed)
    return value


def may_change(value: str) -> bool:
    """Whether a provider may return another value later. A process's environment never changes."""
    template = value.template if isinstance(value, Hidden) else ""
    return any(reference["provider"] != "env" for reference in _REFERENCE.finditer(template))


def _resolve(value: str, environment: Mapping[str, str]) -> str:
    def replacement(found: re.Match[str]) -> str:
        return _look_up(found["provider"], found["rest"], environment)

    text, count = _REFERENCE.subn(replacement, value)
    return Hidden(text, str(value)) if count else value


def _look_up(provider: str, rest: str, environment: Mapping[str, str]) -> str:
    path, colon, key = rest.rpartition(":")
    match provider:
        case "env":
            if rest not in environment:
                raise LookupError(f"no environment variable {rest!r}")
            return environment[rest]
        case "file" if colon:
            return _from_file(path, key)
        case "dir" if colon:
            return _from_directory(path, key)
        case "file" | "dir":
            what = "key" if provider == "file" else "name"
            raise LookupError(f"a {provider} reference reads ${{{provider}:path:{what}}}")
        case "cmd":
            return _from_program(rest)
    return _from_entry_point(provider, path, key)


def _from_file(path: str, key: str) -> str:
    properties = parse_properties(_text(path)).properties
    if key not in properties:
        raise LookupError(f"no key {key!r} in the file {path!r}")
    return properties[key]


def _from_directory(path: str, name: str) -> str:
    if "/" in name or name in {"", ".", ".."}:
        raise LookupError(f"{name!r} is no name of a file in the directory {path!r}")
    return _text(f"{path}/{name}")


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as exc:
        raise LookupError(f"can't read the file {path!r}: {exc.strerror}") from exc
    except ValueError as exc:  # not UTF-8, or not a file name
        raise LookupError(f"can't read the file {path!r} as text") from exc


def _from_program(command: str) -> str:
    """A program's output. It runs without a shell, and nothing that it prints is shown."""
    asked_at = refusal_count()
    refused, since_s, text = _printed.get(command, (asked_at, -_PRINTED_FOR_S, ""))
    if refused == asked_at and time.monotonic() - since_s < _PRINTED_FOR_S:
        return text
    try:
        words = shlex.split(command)
        run = subprocess.run(  # noqa: S603  (the configuration's owner names it)
            words, capture_output=True, check=True, timeout=_PROGRAM_S, stdin=subprocess.DEVNULL
        )
        text = run.stdout.decode().removesuffix("\n").removesuffix("\r")
    except subprocess.CalledProcessError as exc:
        raise LookupError(f"the program {words[0]!r} ended with {exc.returncode}") from None
    except subprocess.TimeoutExpired:
        raise LookupError(f"the program {words[0]!r} took more than {_PROGRAM_S:g} s") from None
    except (OSError, ValueError, IndexError) as exc:
        raise LookupError(f"a program can't be run: {type(exc).__name__}") from None
    _printed[command] = asked_at, time.monotonic(), text
    return text


def _from_entry_point(provider: str, path: str, key: str) -> str:
    found = [*metadata.entry_points(group=GROUP, name=provider)]
    if not found:
        raise LookupError(
            f"no config provider {provider!r}; known: {', '.join(_OWN)}, and entry points of {GROUP}"
        )
    try:
        given: CredentialProvider = found[0].load()
        return str(given(path, key))
    except LookupError as exc:
        raise LookupError(f"the provider {provider!r} has no {key!r}") from exc
    except Exception as exc:
        raise LookupError(f"the provider {provider!r} failed with {type(exc).__name__}") from exc
