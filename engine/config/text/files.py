"""Reads a configuration file of any supported format as flat properties.

`.json` is Kafka Connect's format, with or without the `{"name", "config"}` wrapper. `.yaml` and `.yml` are
flat or nested. Anything else is Java's `.properties`, unless it begins with a brace. Every value becomes
text. References are resolved in `references`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from engine.config.text.java import ParsedProperties, parse_properties
from engine.config.text.mask import shown_name
from engine.config.text.references import resolve
from engine.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable


_NAMES_NULL = ".tidemark.sink"
"""The property that may have the value `null`, which YAML reads as no value."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file's properties, its faults, and the properties whose references could not be resolved."""

    properties: dict[str, str]
    problems: tuple[str, ...]
    unresolved: frozenset[str]


def load(path: Path | str) -> dict[str, str]:
    """Read a file's properties with references resolved. Resolved values are hidden in their repr.

    Raises ConfigError with every fault of the file.
    """
    file = read_file(path)
    if file.problems:
        raise ConfigError(*file.problems)
    return file.properties


def read_file(path: Path | str) -> ConfigFile:
    """Read a file and collect its faults. Raises ConfigError if it can't be read at all."""
    text = _text(Path(path))
    parsed = _parse(text, Path(path).suffix.lower())
    properties, failures = resolve(parsed.properties, dict(os.environ))
    return ConfigFile(properties, (*parsed.problems, *failures.values()), frozenset(failures))


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as exc:
        raise ConfigError(f"can't read {str(path)!r}: {exc.strerror}") from exc
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")  # Java's default for .properties


def _parse(text: str, suffix: str) -> ParsedProperties:
    try:
        if suffix == ".json" or (suffix not in {".yaml", ".yml"} and text.lstrip().startswith("{")):
            return _parse_json(text)
        return _parse_yaml(text) if suffix in {".yaml", ".yml"} else parse_properties(text, _quoted_name)
    except RecursionError:
        raise ConfigError("the configuration is nested too deeply") from None


def _parse_json(text: str) -> ParsedProperties:
    try:
        # numbers keep their spelling; objects become lists of pairs, so that duplicate keys show
        document = json.loads(text, object_pairs_hook=_Pairs, parse_int=str, parse_float=str)
    except json.JSONDecodeError as exc:
        raise ConfigError(f"line {exc.lineno}: not JSON: {exc.msg.lower()}") from None
    if not isinstance(document, _Pairs):
        raise ConfigError("the JSON text must be one object")
    return _flat(_unwrapped(document))


class _Pairs(list[tuple[str, Any]]):
    """A JSON object or YAML mapping as written: every key with its value, duplicates included."""


def _unwrapped(document: _Pairs) -> _Pairs:
    """The configuration inside Kafka Connect's wrapper, which may also give the name."""
    config = dict(document).get("config")
    if not isinstance(config, _Pairs):
        return document
    name = dict(document).get("name")
    inner = dict(config).get("name", name)
    if name == inner:
        config = _Pairs((key, value) for key, value in config if key != "name")
    return config if name is None else _Pairs([("name", name), *config])


def _parse_yaml(text: str) -> ParsedProperties:
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else 1
        raise ConfigError(f"line {line}: not YAML: {exc.problem or 'it can not be read'}") from None
    except yaml.YAMLError:
        raise ConfigError("not YAML: it holds characters that YAML does not allow") from None
    if not isinstance(node, yaml.MappingNode):
        raise ConfigError("the YAML text must be one mapping")
    document = _plain(node, set())
    return _flat(_unwrapped(document))


def _plain(node: yaml.Node, seen: set[int], name: str = "") -> Any:
    """A node as pairs, lists and the text of its scalars. Types are resolved later.

    `name` is the path to the node. Where `null` is a valid value, a null is read as that word.
    """
    if id(node) in seen:
        raise ConfigError(f"line {node.start_mark.line + 1}: write it out instead of an alias")
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        return _Pairs(_pair(key, value, seen, name) for key, value in node.value)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, seen) for item in node.value]
    if node.tag != "tag:yaml.org,2002:null" or (name.endswith(_NAMES_NULL) and node.value == "null"):
        return node.value
    return None


def _pair(key: yaml.Node, value: yaml.Node, seen: set[int], prefix: str) -> tuple[str, Any]:
    name = str(_plain(key, seen))
    return name, _plain(value, seen, f"{prefix}.{name}")


def _flat(document: _Pairs) -> ParsedProperties:
    """Flatten: nested names are joined with dots, lists with commas. A null value means absent."""
    parsed = ParsedProperties()
    for name, value in _leaves("", document):
        if name in parsed.properties:
            parsed.problems.append(f"{_quoted_name(name)} stands twice")
        text = _as_text(value)
        if text is None:
            parsed.problems.append(f"{_quoted_name(name)} is a list of more than plain values")
        else:
            parsed.properties[name] = text
    return parsed


def _leaves(prefix: str, document: _Pairs) -> Iterable[tuple[str, Any]]:
    for key, value in document:
        if isinstance(value, _Pairs):
            yield from _leaves(f"{prefix}{key}.", value)
        elif value is not None:
            yield prefix + key, value


def _as_text(value: Any) -> str | None:
    if isinstance(value, list):
        plain = all(item is not None and not isinstance(item, list) for item in value)
        return ",".join(_as_text(item) or "" for item in value) if plain else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _quoted_name(name: str) -> str:
    return repr(shown_name(name))
