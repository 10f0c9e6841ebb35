"""What both roads to the server are told of TLS."""

from __future__ import annotations

import pytest

from adapters.postgres.drivers import jdbc_properties, libpq_parameters
from adapters.postgres.settings import PostgresSettings, SslMode


@pytest.mark.parametrize(
    ("mode", "root", "told"),
    [
        (SslMode.REQUIRE, "", "require"),
        (SslMode.REQUIRE, "/root.crt", "verify-ca"),
        (SslMode.VERIFY_FULL, "/root.crt", "verify-full"),
        (SslMode.PREFER, "/root.crt", "prefer"),
    ],
)
def test_both_roads_verify_alike(mode, root, told):
    settings = PostgresSettings("db", "tidemark", "shop", ssl_mode=mode, ssl_root_cert=root)

    assert libpq_parameters(settings)["sslmode"] == told
    assert jdbc_properties(settings)["sslmode"] == told
