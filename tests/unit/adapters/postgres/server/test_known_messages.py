"""What PostgreSQL and libpq say only in words, as they have said it."""

from __future__ import annotations

import pytest

from adapters.postgres.server.known_messages import lacks_publication, loss_in, refused_line
from engine.errors import Loss

SERVER = 'connection to server at "db" (10.0.0.7), port 5432 failed: '
GONE = 'ERROR:  can no longer get changes from replication slot "s"'


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ('FATAL:  password authentication failed for user "reader"', "database.password"),
        ('FATAL:  database "nosuch" does not exist', "database.dbname"),
        ('FATAL:  role "nosuch" does not exist', "database.user"),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "reader", database "app"', "pg_hba.conf"),
        ("fe_sendauth: no password supplied", "database.password"),
        ("SSL error: certificate verify failed", "database.sslrootcert"),
        ('server certificate for "db" does not match host name "localhost"', "database.sslmode"),
        ('root certificate file "/none.crt" does not exist', "database.sslrootcert"),
        ("server does not support SSL, but SSL was required", "database.sslmode"),
        ('could not load private key file "/key": no such file', "database.sslkey"),
        ("SSL error: sslv3 alert bad certificate", "database.sslcert"),
        ("FATAL:  connection requires a valid client certificate", "database.sslcert"),
        ("FATAL:  permission denied to start WAL sender", "ALTER ROLE"),
        ("FATAL:  must be superuser or replication role to start walsender", "ALTER ROLE"),
    ],
)
def test_a_refusal_that_no_retry_repairs_names_its_line_and_what_to_check(text: str, setting: str):
    found = refused_line(f"first\n{SERVER}{text}\nlast")

    assert found is not None
    line, hint = found
    assert line == f"{SERVER}{text}"
    assert setting in hint


@pytest.mark.parametrize(
    "text",
    [
        f"{SERVER}Connection refused\n\tIs the server running on that host?",
        "FATAL:  the database system is starting up",
        "FATAL:  sorry, too many clients already",
        "could not translate host name to address",
    ],
)
def test_a_server_that_is_out_of_reach_refuses_nobody(text: str):
    assert refused_line(text) is None


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        ("ERROR:  requested WAL segment 000000010000000000000001 has already been removed", Loss.LOG_REMOVED),
        (GONE, Loss.LOG_REMOVED),
        (f"{GONE}\nDETAIL:  This slot has been invalidated because it exceeded …", Loss.SLOT_INVALIDATED),
        (f"{GONE}\nDETAIL:  This replication slot has been invalidated due to …", Loss.SLOT_INVALIDATED),
        ('ERROR:  replication slot "s" is active for PID 7', None),
        ('ERROR:  replication slot "s" does not exist', None),
        ("FATAL:  terminating connection due to administrator command", None),
    ],
)
def test_a_log_that_is_lost_is_told_from_one_that_is_out_of_reach(text: str, loss: Loss | None):
    assert loss_in(text) is loss


def test_a_publication_that_is_missing_is_told_from_a_slot():
    assert lacks_publication('ERROR:  publication "p" does not exist\nCONTEXT:  slot "s"')
    assert not lacks_publication('ERROR:  replication slot "s" does not exist')
