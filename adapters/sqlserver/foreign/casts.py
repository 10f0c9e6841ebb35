"""The casts of a target's columns to the types that they have in the source, as T-SQL. Pure.

The target's server makes of each value what the source's column would hold, and says whether that has lost
anything. TRY_CONVERT gives NULL for a value that is none of the source's type, so one such value makes its
row differ and no more.

    source                      target                      value                 faithful if
    the same type               the same                    itself                always
    varchar, nvarchar, xml, …   a text, xml                 its text              always
    char, nchar                 a text                      padded                it is no longer
    a number                    a number                    TRY_CONVERT           the way back gives the same
    a date or time              a date or time              TRY_CONVERT           it is the same moment
    bytes                       bytes                       itself                always
    a number, date, time, GUID  a text                      TRY_CONVERT           nothing of it is ignored

"Always" means that rows are compared by the value itself. Texts are parsed, so another text of the same value
is no difference; but T-SQL makes 0 of '' and of '-', 15 of the money '1,5', and ignores what it rounds away.
All other pairs can't be compared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from adapters.sqlserver.server.table import Column
from adapters.sqlserver.server.tsql import TEXTS, declared, quote_ident, value_text
from engine.errors import SourceError

_BINARY: Final = "COLLATE Latin1_General_BIN2"
_CASELESS: Final = "COLLATE Latin1_General_CI_AS"
_PADDED: Final = frozenset({"char", "nchar"})
_LONGEST_PADDED: Final = 4000
_CHARACTERS: Final = TEXTS | {"xml"}
_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_FLOATS: Final = frozenset({"real", "float"})
_DECIMALS: Final = frozenset({"decimal", "numeric", "money", "smallmoney"})
_NUMBERS: Final = _INTEGERS | _FLOATS | _DECIMALS | {"bit"}
_MONEY_SCALE: Final = 4
_OLD_STAMPS: Final = frozenset({"datetime", "smalldatetime"})
_STAMPS: Final = _OLD_STAMPS | {"datetime2", "datetimeoffset"}
_TIMES: Final = _STAMPS | {"date", "time"}
_NO_PAIRS: Final = frozenset({("date", "time"), ("time", "date")})
_BYTES: Final = frozenset({"binary", "varbinary", "image", "timestamp"})
_CLR: Final = frozenset({"geometry", "geography", "hierarchyid"})
_ISO: Final = 121
"""The style of `yyyy-mm-dd hh:mm:ss.nnnnnnn`, which no setting of a session can change."""


class Cast(NamedTuple):
    """How a column of the source is read from the target.

    `column` has the type of `value`. `faithful` is a condition that holds for NULL, too; empty: always.
    """

    column: Column
    value: str
    faithful: str = ""


def absent(source: Column) -> Cast:
    """NULL, for a column that events don't have, or have as NULL."""
    return Cast(_read(source), f"CONVERT({declared(_read(source))}, NULL)")


def cast_of(source: Column, target: Column) -> Cast:
    """The cast of a target's column, whose table is `t`, to the source's. Raises SourceError without one."""
    operand = f"t.{quote_ident(target.name)}"
    found = _chosen(source, target, operand)
    if found is None:
        raise SourceError(
            f"the target's column {target.name!r} is a {declared(target)}, which can't be compared with the"
            f" source's {declared(source)}"
        )
    return found._replace(faithful=f"{operand} IS NULL OR ({found.faithful})") if found.faithful else found


def _chosen(source: Column, target: Column, operand: str) -> Cast | None:
    if source.type in _BYTES | _CLR and target.type in _BYTES | (_CLR & {source.type}):
        return Cast(_large(source, "varbinary"), f"CONVERT(varbinary(max), {operand})")
    if declared(source) == declared(target):
        return Cast(_read(source), operand)
    text = value_text(target, operand) if target.type in _CHARACTERS else ""
    if source.type in _CHARACTERS:
        return _characters(source, text) if text else None
    if text:
        return _parsed(source, text) if target.type in TEXTS else None
    return _converted(source, target, operand)


def _converted(source: Column, target: Column, operand: str) -> Cast | None:
    """The cast of a number, a date or a time to another of these."""
    kinds = (source.type, target.type)
    if _NUMBERS.issuperset(kinds):
        made = _tried(source, operand)
        return Cast(_read(source), made, f"{_tried(target, made)} = {operand}")
    if _TIMES.issuperset(kinds) and kinds not in _NO_PAIRS:
        return _moment(source, target, operand)
    return None


def _read(source: Column) -> Column:
    """The column as it is read, where any value may be NULL."""
    return replace(source, nullable=True, computed=False)


def _large(source: Column, kind: str) -> Column:
    return replace(_read(source), type=kind, length=-1, collation="")


def _tried(column: Column, value: str, style: int = 0) -> str:
    return f"TRY_CONVERT({declared(column)}, {value}{f', {style}' if style else ''})"


def _characters(source: Column, text: str) -> Cast:
    if source.type not in _PADDED or source.length > _LONGEST_PADDED:
        return Cast(_large(source, "nvarchar"), text)
    padded = replace(_read(source), type="nchar", collation="")
    faithful = f"DATALENGTH(RTRIM({text})) <= {2 * source.length}"
    return Cast(padded, f"CONVERT({declared(padded)}, {text})", faithful)


def _moment(source: Column, target: Column, operand: str) -> Cast:
    """A `datetime` has thirds of 10 ms, of which its text shows ms: they stand for what was written."""
    if target.type in _OLD_STAMPS:
        return _moment_of_text(source, value_text(target, operand))
    return _same_moment(source, _tried(source, operand), _offset_stamp(operand))


def _moment_of_text(source: Column, text: str) -> Cast:
    # an old type takes three digits after the point only
    exact = f"TRY_CONVERT(datetime2(7), {text}, {_ISO})" if source.type in _OLD_STAMPS else ""
    made = _tried(source, exact) if exact else _tried(source, text, _ISO)
    return _same_moment(source, made, _offset_stamp(text, _ISO))


def _same_moment(source: Column, made: str, given: str) -> Cast:
    column = _read(source)
    shown = [f"{_offset_stamp(made)} = {given}"]
    if source.type in _OLD_STAMPS:
        shown.append(f"{_offset_stamp(value_text(source, made), _ISO)} = {given}")
    return Cast(column, made, " OR ".join(shown))


def _offset_stamp(value: str, style: int = 0) -> str:
    """Any date or time with all its digits, at offset 0 if it has none. A time is one of 1900-01-01."""
    return _tried(Column("", 0, "datetimeoffset", scale=7), value, style)


def _parsed(source: Column, text: str) -> Cast | None:
    """The cast of a text; None if there is none."""
    kind, column, made = source.type, _read(source), _tried(source, text)
    exact, there = f"{text} {_BINARY}", f"{made} IS NOT NULL"
    number = f"{exact} LIKE N'%[0-9]%'"
    if kind == "bit":
        known = f"{text} {_CASELESS} IN (N'0', N'1', N'true', N'false')"
        return Cast(column, made, f"{there} AND {known}")
    if kind in _INTEGERS | _FLOATS:
        return Cast(column, made, f"{there} AND {number}")
    if kind in _DECIMALS:
        scale = source.scale if kind in {"decimal", "numeric"} else _MONEY_SCALE
        rounded, grouped = f"{exact} LIKE N'%.{'_' * scale}%[1-9]%'", f"{exact} LIKE N'%,%'"
        return Cast(column, made, f"{there} AND {number} AND NOT ({rounded}) AND NOT ({grouped})")
    if kind in _TIMES:
        moment = _moment_of_text(source, text)
        return moment._replace(faithful=f"{number} AND ({moment.faithful})")
    if kind == "uniqueidentifier":
        return Cast(column, made, f"{value_text(source, made)} {_CASELESS} = {text} {_CASELESS}")
    return None
