"""Kafka clients' options: Java's names in, librdkafka's names out.

Owns the table, and key stores, which don't translate one by one. `kafka_login` translates logins. An option
without a counterpart is refused, with an alternative. An option that can't change anything here is ignored.
The callers know which properties hold a client's options.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.config.properties.shapes import FLAG, TEXT, VERBATIM, Shape, whole
from engine.config.sinks.kafka_login import ENDPOINT, LINE, MECHANISMS, OAUTHBEARER, lacks, login_of
from engine.config.text.hidden import is_secret
from engine.config.text.mask import MASK
from engine.config.text.references import may_change

if TYPE_CHECKING:
    from collections.abc import Mapping

_INT = 2**31 - 1
_MS = whole(0, _INT)


@dataclass(frozen=True, slots=True)
class Given:
    """An option's text, with the property that gave it."""

    property: str
    text: str = field(repr=False)


@dataclass(slots=True)
class ClientConfiguration:
    """A client's configuration under librdkafka's names, and the faults of its options."""

    config: dict[str, str] = field(default_factory=dict, repr=False)
    problems: list[str] = field(default_factory=list)


def _words(*words: str) -> Shape:
    folded = {word.lower(): word for word in words}
    return Shape("one of " + ", ".join(words), lambda raw: folded.get(raw.strip().lower()))


def _only(*words: str) -> Shape:
    """An option that allows only these values and is not passed on."""
    return Shape(" or ".join(words), lambda raw: "" if raw.strip().lower() in words else None)


def _buffer(raw: str) -> str | None:
    """Java's -1 is librdkafka's 0: the system's default."""
    size = whole(-1, _INT).convert(raw)
    return None if size is None else str(max(0, int(str(size))))


def _kilobytes(raw: str) -> str | None:
    size = whole(1024).convert(raw)
    return None if size is None else str(min(int(str(size)) // 1024, _INT))


_BUFFER = Shape(f"a whole number from -1 to {_INT}", _buffer)
_IDENTITY = Shape("https, or empty", lambda raw: {"https": "https", "": "none"}.get(raw.strip().lower()))

_OAUTH = "org.apache.kafka.common.security.oauthbearer"
_HANDLERS = (
    f"{_OAUTH}.oauthbearerlogincallbackhandler",
    f"{_OAUTH}.secured.oauthbearerlogincallbackhandler",
)

Table = dict[str, tuple[str, Shape]]

_CLIENT: Table = {
    "bootstrap.servers": ("bootstrap.servers", TEXT),
    "client.id": ("client.id", TEXT),
    "client.rack": ("client.rack", TEXT),
    "client.dns.lookup": (
        "client.dns.lookup",
        _words("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ),
    "security.protocol": ("security.protocol", _words("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    "sasl.mechanism": ("sasl.mechanism", _words(*MECHANISMS)),
    ENDPOINT: (ENDPOINT, TEXT),
    "sasl.oauthbearer.scope": ("sasl.oauthbearer.scope", TEXT),
    "sasl.oauthbearer.client.credentials.client.id": ("sasl.oauthbearer.client.id", TEXT),
    "sasl.oauthbearer.client.credentials.client.secret": ("sasl.oauthbearer.client.secret", VERBATIM),
    "sasl.login.callback.handler.class": ("", _only(*_HANDLERS)),
    "ssl.endpoint.identification.algorithm": ("ssl.endpoint.identification.algorithm", _IDENTITY),
    "ssl.key.password": ("ssl.key.password", VERBATIM),
    "request.timeout.ms": ("socket.timeout.ms", whole(10, 300_000)),
    "metadata.max.age.ms": ("topic.metadata.refresh.interval.ms", _MS),
    "reconnect.backoff.ms": ("reconnect.backoff.ms", whole(0, 3_600_000)),
    "reconnect.backoff.max.ms": ("reconnect.backoff.max.ms", whole(0, 3_600_000)),
    "retry.backoff.ms": ("retry.backoff.ms", whole(1, 300_000)),
    "retry.backoff.max.ms": ("retry.backoff.max.ms", whole(1, 300_000)),
    "connections.max.idle.ms": ("connections.max.idle.ms", _MS),
    "socket.connection.setup.timeout.ms": ("socket.connection.setup.timeout.ms", whole(1000, _INT)),
    "send.buffer.bytes": ("socket.send.buffer.bytes", _BUFFER),
    "receive.buffer.bytes": ("socket.receive.buffer.bytes", _BUFFER),
    "enable.metrics.push": ("enable.metrics.push", FLAG),
}
PRODUCER: Table = {
    **_CLIENT,
    "acks": ("", _only("all", "-1")),
    "enable.idempotence": ("", _only("true")),
    "max.in.flight.requests.per.connection": ("max.in.flight.requests.per.connection", whole(1, 5)),
    "partitioner.class": ("", _only("", "org.apache.kafka.clients.producer.internals.defaultpartitioner")),
    "partitioner.ignore.keys": ("", _only("false")),
    "compression.type": ("compression.type", _words("none", "gzip", "snappy", "lz4", "zstd")),
    "compression.gzip.level": ("compression.level", whole(-1, 9)),
    "compression.lz4.level": ("compression.level", whole(1, 17)),
    "compression.zstd.level": ("compression.level", whole(-_INT, 22)),
    "linger.ms": ("linger.ms", whole(0, 900_000)),
    "batch.size": ("batch.size", whole(1, _INT)),
    "buffer.memory": ("queue.buffering.max.kbytes", Shape("a number of bytes of at least 1024", _kilobytes)),
    "max.request.size": ("message.max.bytes", whole(1000, 1_000_000_000)),
    "delivery.timeout.ms": ("delivery.timeout.ms", whole(1, _INT)),
    "retries": ("retries", whole(1, _INT)),
    "transaction.timeout.ms": ("transaction.timeout.ms", whole(1000, _INT)),
}
CONSUMER: Table = {
    **_CLIENT,
    "fetch.min.bytes": ("fetch.min.bytes", whole(1, 100_000_000)),
    "fetch.max.bytes": ("fetch.max.bytes", whole(0, _INT - 512)),
    "fetch.max.wait.ms": ("fetch.wait.max.ms", whole(0, 300_000)),
    "max.partition.fetch.bytes": ("max.partition.fetch.bytes", whole(1, 1_000_000_000)),
    "isolation.level": ("isolation.level", _words("read_uncommitted", "read_committed")),
    "check.crcs": ("check.crcs", FLAG),
}

_PASSED_OVER = frozenset(
    (
        *("key.serializer", "value.serializer", "key.deserializer", "value.deserializer"),
        *("max.block.ms", "partitioner.adaptive.partitioning.enable"),
        *("partitioner.availability.timeout.ms", "metadata.max.idle.ms", "auto.include.jmx.reporter"),
        *("metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms", "metric.reporters"),
        *("socket.connection.setup.timeout.max.ms", "metadata.recovery.strategy"),
        *("metadata.recovery.rebootstrap.trigger.ms", "config.providers", "ssl.protocol"),
        *("ssl.enabled.protocols", "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm"),
        *("ssl.secure.random.implementation", "ssl.provider", "security.providers"),
        # The consumer assigns its partitions itself, and the job stores the offsets.
        *("group.id", "group.instance.id", "group.protocol", "group.remote.assignor", "auto.offset.reset"),
        *("enable.auto.commit", "auto.commit.interval.ms", "session.timeout.ms", "heartbeat.interval.ms"),
        *("max.poll.records", "max.poll.interval.ms", "partition.assignment.strategy"),
        *("default.api.timeout.ms", "exclude.internal.topics", "allow.auto.create.topics"),
    )
)
_REFUSED = {
    "transactional.id": "events are sent at least once, without transactions; leave it out",
    "transaction.two.phase.commit.enable": "events are sent without transactions; leave it out",
    "interceptor.classes": "interceptors are Java classes, which are not run; leave it out",
    "ssl.engine.factory.class": "a Java class; give certificates as PEM files",
    "ssl.cipher.suites": "OpenSSL chooses the cipher suites; leave it out",
    "sasl.kerberos.<option>": "Kerberos is not supported; use SCRAM-SHA-512 or PLAIN, over TLS",
    "sasl.oauthbearer.<option>": "the client knows token.endpoint.url, scope and client.credentials.client.*",
    "sasl.login.<option>": "Kerberos is not supported, and tokens are renewed by the client; leave it out",
    "sasl.client.callback.handler.class": "a Java class; give the user in sasl.jaas.config",
}
_STORES = re.compile(r"ssl\.(truststore|keystore)\.\w+(\.\w+)?")


def named(prefix: str, options: Mapping[str, str]) -> dict[str, Given]:
    """The options, each with the property that gave it: the prefix and the option's name."""
    return {name: Given(prefix + name, text) for name, text in options.items()}


def translate(options: Mapping[str, Given], table: Table) -> ClientConfiguration:
    """Translate all of a client's options. None is dropped silently."""
    found = ClientConfiguration()
    for name, given in options.items():
        if name in table:
            _convert(found, given, *table[name])
        elif name not in _PASSED_OVER and name != LINE and not _STORES.fullmatch(name):
            found.problems.append(f"{given.property!r} can't be used: {_reason(name)}")
    _truststore(found, options)
    _keystore(found, options)
    _login(found, options)
    return found


def _convert(found: ClientConfiguration, given: Given, target: str, shape: Shape) -> None:
    try:
        value = shape.read(given.text)
    except ValueError as exc:
        shown = MASK if is_secret(given.property, given.text) else repr(given.text)
        found.problems.append(f"{given.property!r} is {shown}; it must be {exc}")
        return
    if target:
        text = value if isinstance(value, str) else str(value)  # a resolved reference stays hidden
        found.config[target] = text.lower() if isinstance(value, bool) else text


def _reason(name: str) -> str:
    rules = ((rule.partition("<")[0], reason) for rule, reason in _REFUSED.items())
    return next((reason for start, reason in rules if name.startswith(start)), "Kafka has no such option")


def _truststore(found: ClientConfiguration, options: Mapping[str, Given]) -> None:
    location, inline = options.get("ssl.truststore.location"), options.get("ssl.truststore.certificates")
    if inline is not None:
        found.config["ssl.ca.pem"] = inline.text
    elif location is not None and _type(options, "ssl.truststore.type") == "PEM":
        found.config["ssl.ca.location"] = location.text
    elif location is not None:
        found.problems.append(
            f"{location.property!r} is a Java key store; export its certificates as PEM"
            " (keytool -exportcert -rfc) and set ssl.truststore.type=PEM"
        )


def _keystore(found: ClientConfiguration, options: Mapping[str, Given]) -> None:
    inline = {"ssl.keystore.certificate.chain": "ssl.certificate.pem", "ssl.keystore.key": "ssl.key.pem"}
    found.config |= {target: options[name].text for name, target in inline.items() if name in options}
    location = options.get("ssl.keystore.location")
    if location is None:
        return
    match _type(options, "ssl.keystore.type"):
        case "PEM":
            # One file with the key and its certificates, as Java requires.
            found.config |= {"ssl.key.location": location.text, "ssl.certificate.location": location.text}
        case "PKCS12":
            found.config["ssl.keystore.location"] = location.text
            if "ssl.keystore.password" in options:
                found.config["ssl.keystore.password"] = options["ssl.keystore.password"].text
        case _:
            found.problems.append(
                f"{location.property!r} is a Java key store; convert it (keytool -importkeystore"
                " -deststoretype PKCS12) and set ssl.keystore.type=PKCS12, or give it as PEM"
            )


def _type(options: Mapping[str, Given], name: str) -> str:
    return options[name].text.strip().upper() if name in options else "JKS"


def _login(found: ClientConfiguration, options: Mapping[str, Given]) -> None:
    protocol = options.get("security.protocol")
    if protocol is None or not protocol.text.strip().upper().startswith("SASL"):
        return
    prefix = protocol.property.removesuffix("security.protocol")
    mechanism, jaas = options.get("sasl.mechanism"), options.get(LINE)
    if mechanism is None:
        found.problems.append(
            f"missing {prefix + 'sasl.mechanism'!r}: Kerberos, Java's default, is not supported;"
            " use SCRAM-SHA-512 or PLAIN, over TLS"
        )
    if jaas is None:
        found.problems.append(f"missing {prefix + LINE!r}: the user and the password")
    elif mechanism is not None:
        _user(found, jaas, mechanism.text.strip().upper())


def _user(found: ClientConfiguration, jaas: Given, mechanism: str) -> None:
    """Take the login from a JAAS line, whose module must belong to the mechanism."""
    try:
        login = login_of(jaas.text)
    except ValueError as exc:
        found.problems.append(f"{jaas.property!r} can't be read; it must be {exc}")
        return
    if lack := lacks(mechanism, login, found.config):
        found.problems.append(f"{jaas.property!r} can't be used: it {lack}")
    elif login.token or may_change(jaas.text):
        found.config[LINE] = jaas.text
    else:
        found.config |= login.options
    if mechanism == OAUTHBEARER and not login.token:
        found.config["sasl.oauthbearer.method"] = "oidc"
