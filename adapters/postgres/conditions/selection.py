"""Which rows of a table a signal asks for: its condition or its SELECT, in the form that is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.postgres.conditions.grammar import GRAMMAR, named_column
from adapters.postgres.conditions.trusted_sql import plain_condition
from adapters.postgres.server.sql import quote_ident
from adapters.source.conditions.rendering import render_condition
from adapters.source.conditions.selects import is_query, select_condition
from adapters.source.conditions.writer import ResolvedColumn
from engine.config.settings import Conditions
from engine.errors import ConfigError, SignalError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adapters.postgres.server.publication import Share
    from adapters.postgres.server.questions.layouts import KeyType
    from adapters.postgres.server.questions.questions import Questions
    from adapters.postgres.server.table import Table
    from adapters.source.conditions.writer import Reference
    from engine.model import Target

_NAMED = 20


@dataclass(frozen=True, slots=True)
class _PublishedTable:
    """A table, what is published of it, and its columns' types by number."""

    table: Table
    share: Share
    types: Mapping[int, KeyType]

    @property
    def columns(self) -> Sequence[str]:
        """The columns that are read of it."""
        if self.share.columns is not None:
            return self.share.columns
        return [column.name for column in self.table.columns if not column.generated]

    def found(self, reference: Reference) -> ResolvedColumn | None:
        """The published column that a condition names, if there is one."""
        table, share = self.table, self.share
        name = named_column(reference, table.id)
        column = None if name is None else table.column(name)
        if column is None or (share.columns is not None and column.name not in share.columns):
            return None
        kind = self.types[column.type]
        return ResolvedColumn(
            quote_ident(column.name), kind.name, kind.operators and quote_ident(kind.operators)
        )


class Selections:
    """Takes signals' conditions in the forms that the settings allow."""

    def __init__(self, questions: Questions, conditions: Conditions) -> None:
        self._questions, self._conditions = questions, conditions

    def of(
        self, target: Target, described: Table, share: Share, types: Mapping[int, KeyType]
    ) -> tuple[str | None, str | None]:
        """The SELECT to read instead of the table, and the condition to read by, as they are sent.

        `types` are those of the columns, by their numbers. Raises SignalError if the signal's condition may
        not be sent.
        """
        table = _PublishedTable(described, share, types)
        if not target.blocking or target.condition is None:
            return None, self._condition(target, table)
        match self._conditions:
            case Conditions.SQL:
                return self._statement(target.condition, table), None
            case Conditions.OFF:
                return None, self._condition(target, table)
            case Conditions.EXPRESSIONS:
                known = [quote_ident(name) for name in table.columns]
                return None, select_condition(target.condition, GRAMMAR, table.found, table.table.id, known)

    def _statement(self, statement: str, table: _PublishedTable) -> str:
        """A signal's SELECT of any kind as it is sent. Raises SignalError if it is none."""
        place = table.table.id
        try:
            text = plain_condition(statement)
        except ValueError as error:
            raise SignalError(f"the SELECT is refused: it has {error}", where=place) from error
        if not is_query(text):
            raise SignalError("the filter of a blocking snapshot must be a SELECT", where=place)
        try:
            given = self._questions.layouts.columns_of(text, place)
        except ConfigError as error:
            raise SignalError(error.message, where=place) from error
        lacking = [name for name in table.columns if name not in given]
        if lacking:
            named = ", ".join(map(repr, lacking[:_NAMED]))
            raise SignalError(f"the SELECT does not give the columns {named}", where=place)
        return text

    def _condition(self, target: Target, table: _PublishedTable) -> str | None:
        if target.condition is None:
            return None
        place = table.table.id
        match self._conditions:
            case Conditions.OFF:
                raise SignalError(
                    "conditions are not taken", where=place, hint="see tidemark.snapshot.conditions"
                )
            case Conditions.SQL:
                try:
                    return plain_condition(target.condition)
                except ValueError as error:
                    raise SignalError(f"the condition is refused: it has {error}", where=place) from error
            case Conditions.EXPRESSIONS:
                return render_condition(target.condition, GRAMMAR, table.found, place)
