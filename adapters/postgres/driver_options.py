"""The PostgreSQL driver's options, which `database.` passes through.

Names are those of pgjdbc. libpq reads the log and knows some of them under other names, which `LIBPQ` lists.
The others reach only the JDBC readers.
"""

from __future__ import annotations

from engine.config.properties.row import APPLIED, IGNORED, Property
from engine.config.properties.shapes import TEXT

LIBPQ = {
    "ApplicationName": "application_name",
    "channelBinding": "channel_binding",
    "connectTimeout": "connect_timeout",
    "gssEncMode": "gssencmode",
    "gsslib": "gsslib",
    "kerberosServerName": "krbsrvname",
    "loadBalanceHosts": "load_balance_hosts",
    "options": "options",
    "requireAuth": "require_auth",
    "service": "service",
    "sslNegotiation": "sslnegotiation",
}
"""pgjdbc's names to libpq's, if the values mean the same."""

_JDBC = (
    *("adaptiveFetch", "adaptiveFetchMaximum", "adaptiveFetchMinimum", "assumeMinServerVersion", "autosave"),
    *("binaryTransfer", "binaryTransferDisable", "binaryTransferEnable", "cancelSignalTimeout"),
    *("cleanupSavepoints", "currentSchema", "databaseMetadataCacheFields", "databaseMetadataCacheFieldsMiB"),
    *("defaultRowFetchSize", "disableColumnSanitiser", "gssResponseTimeout", "groupStartupParameters"),
    *("hostRecheckSeconds", "jaasApplicationName", "jaasLogin", "localSocketAddress", "logServerErrorDetail"),
    *("loginTimeout", "logUnclosedConnections", "maxResultBuffer", "maxSendBufferSize", "preferQueryMode"),
    *(
        "preparedStatementCacheQueries",
        "preparedStatementCacheSizeMiB",
        "prepareThreshold",
        "protocolVersion",
    ),
    *("queryTimeout", "receiveBufferSize", "sendBufferSize", "socketTimeout", "ssl", "sslResponseTimeout"),
    *("targetServerType", "tcpNoDelay", "unknownLength", "useSpnego"),
)
_UNUSED = {
    "a Java class; libpq can't use one": (
        *(
            "authenticationPluginClassName",
            "classLoaderStrategy",
            "connection.factory.class",
            "socketFactory",
        ),
        *("socketFactoryArg", "sslfactory", "sslfactoryarg", "sslhostnameverifier", "sslpasswordcallback"),
        *("sspiServiceClass", "xmlFactoryFactory", "pemKeyAlgorithm"),
    ),
    "Tidemark decides this for each connection": (
        *(
            "allowEncodingChanges",
            "convertBooleanToNumeric",
            "escapeSyntaxCallMode",
            "hideUnprivilegedObjects",
        ),
        *(
            "loggerFile",
            "loggerLevel",
            "quoteReturningIdentifiers",
            "readOnly",
            "readOnlyMode",
            "replication",
        ),
        *("reWriteBatchedInserts", "stringtype", "connectionTimeZone"),
    ),
}

DRIVER = (
    *(Property(f"database.{name}", APPLIED, "option of the driver", TEXT) for name in (*LIBPQ, *_JDBC)),
    *(Property(f"database.{name}", IGNORED, why) for why, names in _UNUSED.items() for name in names),
)
OPTIONS = frozenset((*LIBPQ, *_JDBC))
"""The options that are passed on."""
