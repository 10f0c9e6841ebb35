"""The source that a suite is run on: in memory always, on real servers as integration tests."""

from __future__ import annotations

import pytest

from tests.conformance.sqlserver_subject import SqlServerSubject
from tests.conformance.subjects import MemorySubject, MongoSubject, PostgresSubject

SUBJECTS = [
    "memory",
    pytest.param("postgres", marks=pytest.mark.integration),
    pytest.param("mongodb", marks=pytest.mark.integration),
    pytest.param("sqlserver", marks=pytest.mark.integration),
]


@pytest.fixture(params=SUBJECTS)
def subject(request, tmp_path):
    """A fresh database with an empty collection, as `tests.conformance.subjects.Subject`."""
    match request.param:
        case "memory":
            yield MemorySubject(tmp_path)
        case "postgres":
            database = request.getfixturevalue("database")
            made = PostgresSubject(database, tmp_path, request.getfixturevalue("spark"))
            yield made
            made.close()
        case "mongodb":
            server = request.getfixturevalue("mongodb")
            mongo = MongoSubject(server, tmp_path, request.getfixturevalue("spark"))
            yield mongo
            mongo.close()
        case "sqlserver":
            standin = request.getfixturevalue("sqlserver")
            sqlserver = SqlServerSubject(standin, tmp_path, request.getfixturevalue("spark"))
            yield sqlserver
            sqlserver.close()
