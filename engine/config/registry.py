"""The sources and sinks that come with Tidemark: their names, and the objects that declare them.

They are declared like those of other packages, and written as entry points are. They are listed here because
a checkout that is not installed has no entry points. A new one needs a line here, and touches nothing else.
"""

from __future__ import annotations

from typing import Final

SOURCES: Final = "tidemark.sources"
SINKS: Final = "tidemark.sinks"
_DEBEZIUM: Final = "io.debezium.connector"
_POSTGRES: Final = f"{_DEBEZIUM}.postgresql.PostgresConnector"
_MONGODB: Final = f"{_DEBEZIUM}.mongodb.MongoDbConnector"
_SQLSERVER: Final = f"{_DEBEZIUM}.sqlserver.SqlServerConnector"

BUILT_IN: Final = {
    SOURCES: {
        _POSTGRES: "adapters.postgres.properties:CONNECTOR",
        _MONGODB: "adapters.mongodb.properties:CONNECTOR",
        _SQLSERVER: "adapters.sqlserver.properties:CONNECTOR",
    },
    SINKS: {
        "files": "adapters.sinks.properties:FILES",
        "console": "adapters.sinks.properties:CONSOLE",
        "null": "adapters.sinks.properties:NULL",
        "kafka": "adapters.kafka.properties:SINK",
        "jdbc": "adapters.jdbc.properties:SINK",
        "delta": "adapters.lakehouse.properties:SINK",
        "iceberg": "adapters.lakehouse.properties:SINK",
    },
}
"""By group and name."""
SHORT_NAMES: Final = {
    **dict.fromkeys(("PostgresConnector", "postgresql", ""), _POSTGRES),
    **dict.fromkeys(("MongoDbConnector", "mongodb"), _MONGODB),
    **dict.fromkeys(("SqlServerConnector", "sqlserver"), _SQLSERVER),
}
"""Other values of `connector.class` that name a source of ours."""
