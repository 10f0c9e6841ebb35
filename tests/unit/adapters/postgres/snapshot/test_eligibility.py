"""What a snapshot knows of the table that it reads."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest

from adapters.postgres.server.table import Column, Table
from adapters.postgres.snapshot.eligibility import ReadTable, _refuse_null_identity
from adapters.postgres.snapshot.keyset import Keyset
from engine.errors import SignalError
from engine.model import CollectionId

KEY, NAME, SECRET = Column("k", 23), Column("n", 1043, 13), Column("s", 25)


def schema(*columns: Column, published: tuple[str, ...] | None = None) -> str:
    table = Table(7, CollectionId(("public", "t")), "r", columns, ("k",))
    return ReadTable(table, Keyset(()), Keyset(()), published).schema


def test_the_digest_of_a_schema_tells_names_types_and_their_order():
    others = [(NAME, KEY), (KEY, replace(NAME, typmod=14)), (KEY, replace(NAME, name="m")), (KEY,)]

    assert schema(KEY, NAME) == sha256(b'[["k","23 -1"],["n","1043 13"]]').hexdigest()[:32]
    assert len({schema(KEY, NAME), *(schema(*other) for other in others)}) == 5


def test_a_replica_identity_that_may_be_null_is_refused():
    named = Column("n", 23)
    table = Table(
        7, CollectionId(("public", "t")), "r", (KEY, named), ("k",), identity="i", identity_key=("n",)
    )

    _refuse_null_identity(replace(table, columns=(KEY, replace(named, nullable=False))))
    _refuse_null_identity(replace(table, identity="d"))
    with pytest.raises(SignalError, match="may have NULL in the replica identity's column 'n'"):
        _refuse_null_identity(table)


def test_only_what_is_published_belongs_to_the_schema():
    assert schema(KEY, NAME, SECRET, published=("k", "n")) == schema(KEY, NAME)
