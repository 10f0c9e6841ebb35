"""Turns the exceptions of a database's driver into ours, once, at the adapter's edge.

A source says which exceptions its driver raises, and what may be repeated of one (`Fault`). Its table says
what the server's codes mean (`ErrorMeaning`). Everything else is a SourceError: the database failed, and a
retry may help.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from engine.config.text.refusals import note_refusal
from engine.errors import ConfigError, LoginRefused, SourceError, TidemarkError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from engine.model import CollectionId

DriverError = TypeVar("DriverError", bound=Exception)


@dataclass(frozen=True, slots=True)
class Fault:
    """What a driver's exception tells: `said` is what may be repeated of it, `name` what the server calls it.

    `codes` are the server's, of which any may have a meaning; none if the driver itself failed. `hint` counts
    where the meaning has none.
    """

    said: str
    codes: tuple[int | str | None, ...] = ()
    name: str = ""
    hint: str = ""

    @property
    def code(self) -> int | str | None:
        """The server's first code."""
        return self.codes[0] if self.codes else None


class ServerRefused(SourceError):
    """The server refused permanently. `fault` is what it said."""

    fault: Fault = Fault("")


@dataclass(frozen=True, slots=True)
class ErrorMeaning:
    """The error that some codes of the server stand for; `codes` None: any code.

    `says` replaces what was being done and "failed"; `where` replaces the caller's.
    """

    error: type[TidemarkError]
    codes: Collection[int | str] | None = None
    says: str = ""
    where: str = ""
    hint: str = ""

    def covers(self, fault: Fault) -> bool:
        """Whether it is the meaning of a fault."""
        return bool(fault.codes) if self.codes is None else any(code in self.codes for code in fault.codes)

    def of(self, fault: Fault, doing: str, where: CollectionId | str) -> TidemarkError:
        """The error."""
        message, hint = f"{self.says or f'{doing} failed'}: {fault.said}", self.hint or fault.hint
        if issubclass(self.error, ConfigError):
            return self.error(message, hint=hint)
        error = self.error(message, where=self.where or where, hint=hint)
        if isinstance(error, ServerRefused):
            error.fault = fault
        return error


_OTHER: Final = ErrorMeaning(SourceError)


class DriverErrors(Generic[DriverError]):
    """Raises the exceptions of one driver as ours: `with errors("measuring", table): …`.

    The first of the `meanings` that covers a fault counts. `where` counts if a caller gives none.
    """

    def __init__(
        self,
        driver: type[DriverError],
        fault: Callable[[DriverError], Fault],
        where: str,
        meanings: tuple[ErrorMeaning, ...] = (),
    ) -> None:
        self._driver, self._fault, self._where, self._meanings = driver, fault, where, meanings

    def refined(self, *meanings: ErrorMeaning) -> DriverErrors[DriverError]:
        """The same for a narrower use, where these meanings come before the others."""
        return DriverErrors(self._driver, self._fault, self._where, (*meanings, *self._meanings))

    @contextmanager
    def __call__(self, doing: str, where: CollectionId | str = "") -> Iterator[None]:
        """Raise the driver's exceptions inside as ours."""
        try:
            yield
        except self._driver as error:
            raise self.error(error, doing, where) from error

    def error(self, error: DriverError, doing: str, where: CollectionId | str = "") -> TidemarkError:
        """A driver's exception as ours, in one line. A refused login has credentials renewed."""
        fault = self._fault(error)
        meaning = next((meaning for meaning in self._meanings if meaning.covers(fault)), _OTHER)
        if issubclass(meaning.error, LoginRefused):
            note_refusal()
        return meaning.of(fault, doing, where or self._where)
