"""All quoting of SQL for PostgreSQL: names and literals, and nothing else."""

from __future__ import annotations

import re
from typing import Final

from engine.errors import InvariantError

IS_NULL, IS_THERE = "IS NOT DISTINCT FROM NULL", "IS DISTINCT FROM NULL"
"""NULL tests that any index serves. On a composite value, `IS NULL` asks whether all its fields are NULL."""


_QUOTED: Final = re.compile(r'"((?:[^"]|"")+)"')


def quote_ident(name: str) -> str:
    """A name as an identifier that means exactly this name, whatever its characters."""
    _refuse_nul(name)
    return '"' + name.replace('"', '""') + '"'


def quote_table(schema: str, table: str) -> str:
    """A table's full name."""
    return f"{quote_ident(schema)}.{quote_ident(table)}"


def leading_ident(text: str) -> str:
    """The name at the beginning of an SQL text, as `quote_ident` wrote it."""
    found = _QUOTED.match(text)
    if found is None:
        raise InvariantError(f"no quoted name begins {text!r}")
    return found[1].replace('""', '"')


def quote_literal(text: str) -> str:
    """A string literal that is the same under either setting of `standard_conforming_strings`."""
    _refuse_nul(text)
    doubled = text.replace("'", "''")
    if "\\" in doubled:
        return " E'" + doubled.replace("\\", "\\\\") + "'"
    return f"'{doubled}'"


def _refuse_nul(text: str) -> None:
    if "\0" in text:
        raise InvariantError("a NUL character can't stand in SQL", where=repr(text))
