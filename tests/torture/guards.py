"""All guards that can be switched off, by source and name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.torture.mongo_mutants import MONGO_MUTANTS
from tests.torture.mutants import MUTANTS
from tests.torture.sqlserver_mutants import SQLSERVER_MUTANTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.torture.mutants import Mutant

GUARDS: Final[Mapping[str, Mapping[str, Mutant]]] = {
    "postgres": MUTANTS,
    "mongodb": MONGO_MUTANTS,
    "sqlserver": SQLSERVER_MUTANTS,
}
