"""The options of Microsoft's JDBC driver, under `driver.` or, in older versions, `database.`.

That driver reads the log and the chunks, the ODBC driver reads metadata. An option is applied if both know
it. An option that only one knows is refused, with an alternative, if it would change the connection's
security or what is read. All others have no effect here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.sqlserver.settings import Encryption
from engine.config.properties.row import APPLIED, IGNORED, REFUSED, Property
from engine.config.properties.shapes import FLAG, TEXT, VERBATIM, Shape, harmless, whole

if TYPE_CHECKING:
    from engine.config.properties.values import Values

_ENCRYPTION = {
    **{str(mode): mode for mode in Encryption},
    "true": Encryption.MANDATORY,
    "yes": Encryption.MANDATORY,
    "false": Encryption.OPTIONAL,
    "no": Encryption.OPTIONAL,
}
_ENCRYPT = Shape("one of " + ", ".join(_ENCRYPTION), lambda raw: _ENCRYPTION.get(raw.strip().lower()))

_APPLIED = (
    ("encrypt", "whether connections are encrypted", _ENCRYPT, "true"),
    ("trustServerCertificate", "accept any certificate of the server", FLAG, "false"),
    ("hostNameInCertificate", "the name that the server's certificate must have", TEXT, ""),
    ("serverCertificate", "file of the certificate that the server must have, with encrypt=strict", TEXT, ""),
    ("applicationName", "the program's name in the server's lists", TEXT, "tidemark"),
    ("loginTimeout", "wait for a connection, seconds", whole(0, 65535), "30"),
    ("packetSize", "bytes of a network packet; 0: the driver's number", whole(0, 32767), "0"),
    (
        "accessToken",
        "a token of Entra ID, instead of a user and a password; give it by a reference",
        VERBATIM,
        "",
    ),
    ("multiSubnetFailover", "try all addresses of a listener at once", FLAG, "false"),
)
_CERTIFICATES = (
    "the ODBC driver knows no Java key store; install the authority's certificate in the system's store"
    " and in Java's, or give the server's with serverCertificate and encrypt=strict"
)
_LOGIN = (
    "only logins of SQL Server and tokens are supported; give database.user and database.password, or"
    " database.accessToken"
)
_REFUSED = {
    "chunks and signal rows need the primary: a readable secondary shows commits late; leave it out": (
        ("applicationIntent", ("ReadWrite",)),
    ),
    _CERTIFICATES: tuple(
        (name, ()) for name in ("trustStore", "trustManagerClass", "trustManagerConstructorArg")
    ),
    _LOGIN: (
        ("authentication", ("NotSpecified", "SqlPassword")),
        ("integratedSecurity", ("false",)),
        *((name, ()) for name in ("authenticationScheme", "accessTokenCallbackClass")),
        *((name, ()) for name in ("clientCertificate", "msiClientId", "domain", "gsscredential")),
    ),
    "encrypted columns are read as they are stored": (("columnEncryptionSetting", ("Disabled",)),),
    "name the availability group's listener in database.hostname": (("failoverPartner", ()),),
    "keys are compared with literals of their own type, which needs no such choice": (
        ("sendStringParametersAsUnicode", ("true", "false")),
    ),
    "the databases are named by database.names": (("databaseName", ()), ("database", ())),
    "name the instance in database.instance": (("instanceName", ()),),
    "name the host in database.hostname and its port in database.port": (
        *(("serverName", ()), ("server", ()), ("portNumber", ())),
    ),
}
_WHY = {
    "it belongs to an option that is refused": (
        *("trustStorePassword", "trustStoreType", "clientKey", "clientKeyPassword", "realm"),
        *("keyStoreAuthentication", "keyStoreLocation", "keyStoreSecret", "keyStorePrincipalId"),
        *("keyVaultProviderClientId", "keyVaultProviderClientKey", "enclaveAttestationUrl"),
        *("enclaveAttestationProtocol", "jaasConfigurationName", "serverSpn", "useDefaultJaasConfig"),
    ),
    "the readers set it themselves": (
        *("responseBuffering", "selectMethod", "lockTimeout", "queryTimeout", "cancelQueryTimeout"),
        *("statementPoolingCacheSize", "disableStatementPooling", "sendTimeAsDatetime", "xopenStates"),
        *("enablePrepareOnFirstPreparedStatementCall", "serverPreparedStatementDiscardThreshold"),
        *("delayLoadingLobs", "maxResultBuffer", "useFmtOnly", "datetimeParameterType", "prepareMethod"),
        *("useBulkCopyForBatchInsert", "sendTemporalDataTypesAsStringForBulkCopy", "calcBigDecimalPrecision"),
    ),
    "the job connects again by itself": ("connectRetryCount", "connectRetryInterval", "retryExec"),
    "only one of the two drivers knows it": (
        *("workstationID", "socketTimeout", "sslProtocol", "fips", "fipsProvider", "socketFactoryClass"),
        *("transparentNetworkIPResolution", "ipAddressPreference", "socketFactoryConstructorArg"),
        *("replication", "maxFieldSize", "ignoreOffsetOnDateTimeOffsetConversion", "vectorTypeSupport"),
    ),
}


def _both(name: str) -> tuple[str, str]:
    return f"driver.{name}", f"database.{name}"


DRIVER = (
    *(
        Property(full, APPLIED, text, shape, default)
        for name, text, shape, default in _APPLIED
        for full in _both(name)
    ),
    *(
        Property(full, REFUSED, why, harmless(*same))
        for why, options in _REFUSED.items()
        for name, same in options
        for full in _both(name)
    ),
    *(Property(full, IGNORED, why) for why, names in _WHY.items() for name in names for full in _both(name)),
)


def driver_name(values: Values, name: str) -> str:
    """The property that sets an applied option. The newer spelling takes precedence."""
    newer, older = _both(name)
    return newer if newer in values.given else older
