"""References in values, as Kafka Connect's config providers resolve them.

`${env:NAME}` is an environment variable, `${file:path:key}` a key of a `.properties` file.
Other text in `${…}` without a colon is left as it is, as Kafka Connect leaves it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from engine.config.hidden import Hidden, shown_name
from engine.config.java import parse_properties

if TYPE_CHECKING:
    from collections.abc import Mapping

_REFERENCE = re.compile(r"\$\{(?P<provider>[^}:]*):(?:(?P<path>[^}]*):)?(?P<key>[^}:]*)\}")


def resolve(
    properties: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Replace every reference. Resolved values are `Hidden`.

    Returns the properties, and one problem for each name that could not be resolved.
    """
    resolved: dict[str, str] = {}
    problems: dict[str, str] = {}
    for name, value in properties.items():
        try:
            resolved[name] = _resolve(value, environment)
        except LookupError as exc:
            resolved[name] = value
            problems[name] = f"{shown_name(name)!r}: {exc.args[0]}"
    return resolved, problems


def _resolve(value: str, environment: Mapping[str, str]) -> str:
    def replacement(found: re.Match[str]) -> str:
        return _look_up(found["provider"], found["path"], found["key"], environment)

    text, count = _REFERENCE.subn(replacement, value)
    return Hidden(text) if count else value


def _look_up(provider: str, path: str | None, key: str, environment: Mapping[str, str]) -> str:
    match provider:
        case "env":
            if path is not None or key not in environment:
                raise LookupError(f"no environment variable {key if path is None else f'{path}:{key}'!r}")
            return environment[key]
        case "file":
            if path is None:
                raise LookupError("a file reference reads ${file:path:key}")
            return _from_file(path, key)
    raise LookupError(f"no config provider {provider!r}; known: env, file")


def _from_file(path: str, key: str) -> str:
    try:
        properties = parse_properties(Path(path).read_text(encoding="utf-8")).properties
    except OSError as exc:
        raise LookupError(f"can't read the file {path!r}: {exc.strerror}") from exc
    except ValueError as exc:  # no UTF-8 text, or no name of a file
        raise LookupError(f"can't read the file {path!r} as text") from exc
    if key not in properties:
        raise LookupError(f"no key {key!r} in the file {path!r}")
    return properties[key]
