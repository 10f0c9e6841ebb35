"""A Kafka broker for tests, the demo and the benchmarks: created, started, stopped, killed and deleted.

It is one KRaft node from Maven's archives, on free ports of 127.0.0.1. Clients use the listener of `protocol`
(`settings` configure TLS and SASL). Observers use the plain listener beside it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import orjson
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic

from tests.servers.maven import Artifact, library
from tests.servers.port import free_port
from tests.servers.running import Running

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_KAFKA = Artifact("org.apache.kafka", "kafka_2.13", "4.3.1")
_LOGGING = Artifact("org.slf4j", "slf4j-simple", "1.7.36")
_SHA256 = "6c957e9a20bc783aa632211b652aa494ea769cd65a30bf23d46c7b6f4b0a9c20"
_TIMEOUT_S = 60.0
_OF_THE_BROKER = {"__consumer_offsets", "__transaction_state", "__share_group_state"}

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
DEFAULT_SETTINGS: Mapping[str, str] = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAIN",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    # enforce quotas from the first seconds on
    "quota.window.num": "2",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "log.cleaner.dedupe.buffer.size": "4194304",
    # after a kill, the controller waits this long before the broker may return
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
}


@dataclass(frozen=True, slots=True)
class Security:
    """How clients connect: a protocol, the broker's settings for it, and SCRAM users."""

    protocol: str = "PLAINTEXT"
    settings: Mapping[str, str] = field(default_factory=dict)
    scram_users: Mapping[str, str] = field(default_factory=dict)


ACLS: Mapping[str, str] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
WITH_ACLS = Security(
    "SASL_PLAINTEXT",
    {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_job="secret";'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    },
)
"""The user `job` may only do what is allowed explicitly; clients of the plain listener may do anything."""
AS_JOB: Mapping[str, str] = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="job" password="secret";'
    ),
}
"""How `job` connects, with Java's property names."""


class KafkaBroker(Running):
    """One broker and its data folder, from `start` to `close`, or as a context manager."""

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        security: Security | None = None,
        *,
        heap: str = "256m",
    ) -> None:
        self._settings = {**DEFAULT_SETTINGS, **(settings or {})}
        self._security = security or Security()
        self._heap = heap
        self._folder = Path(tempfile.mkdtemp(prefix="tidemark-kafka-"))
        self._clients, self._plain, self._controller = free_port(), free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._voters = ""

    @property
    def bootstrap(self) -> str:
        """The address for clients, with the protocol of `security`."""
        return f"127.0.0.1:{self._clients}"

    @property
    def plain(self) -> dict[str, Any]:
        """A client's configuration for the plain listener."""
        return {"bootstrap.servers": f"127.0.0.1:{self._plain}", "log_level": 0}

    @property
    def running(self) -> bool:
        """Whether the process is running."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Format the data folder if needed, start the broker, and return once it answers."""
        self.launch()
        self.wait_until_it_answers()

    @property
    def voter(self) -> str:
        """Its entry in the controller quorum."""
        return f"{self._settings['node.id']}@127.0.0.1:{self._controller}"

    def launch(self, voters: str = "") -> None:
        """Format the data folder if needed, for this quorum or a quorum of one, and start the broker."""
        self._voters = voters or self._voters or self.voter
        if not (self._folder / "data" / "meta.properties").exists():
            self._format()
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_java(self._heap), "kafka.Kafka", self._properties],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C in the terminal is ours to handle, not the broker's
            )

    def freeze(self, seconds: float) -> None:
        """Freeze the process for this long."""
        if self._process is None or not self.running:
            return
        self._process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            self._process.send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def refusing(self, topic: str) -> Iterator[None]:
        """Refuse all writes to a topic meanwhile. The broker needs the settings `ACLS`."""
        acls = [
            AclBinding(
                ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", operation, said
            )
            for operation, said in (
                (AclOperation.ALL, AclPermissionType.ALLOW),
                (AclOperation.WRITE, AclPermissionType.DENY),
            )
        ]
        self._insist(AdminClient.create_acls, acls)
        try:
            yield
        finally:
            anything = AclBindingFilter(
                ResourceType.TOPIC,
                topic,
                ResourcePatternType.LITERAL,
                cast("str", None),
                cast("str", None),
                AclOperation.ANY,
                AclPermissionType.ANY,
            )
            self._insist(AdminClient.delete_acls, [anything])

    def _insist(self, change: Any, acls: list[Any]) -> None:
        """Change ACLs, retrying: a broker that has just restarted may not answer the first request."""
        deadline = time.monotonic() + 2 * _TIMEOUT_S
        while True:
            admin = self._admin()
            try:
                for changed in change(admin, acls, request_timeout=5.0).values():
                    changed.result(10.0)
            except (KafkaException, TimeoutError):
                if time.monotonic() > deadline:
                    raise
            else:
                return

    def stop(self) -> None:
        """Shut the broker down cleanly. Its data stay."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the broker, which looks like a power loss to clients."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """Kill it and delete its data."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def create_topic(self, name: str, partitions: int = 1, replicas: int = 1, **settings: str) -> None:
        """Create a topic. Dots in names of settings are written as two underscores."""
        config = {key.replace("__", "."): value for key, value in settings.items()}
        admin = self._admin()  # kept alive until the answer arrives
        admin.create_topics([NewTopic(name, partitions, replicas, config=config)])[name].result(_TIMEOUT_S)

    def configure(self, topic: str, **settings: str) -> None:
        """Change a topic's settings, named as in `create_topic`."""
        entries = [
            ConfigEntry(key.replace("__", "."), value, incremental_operation=AlterConfigOpType.SET)
            for key, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        admin = self._admin()
        admin.incremental_alter_configs([resource])[resource].result(_TIMEOUT_S)

    def slow_down(self, client: str, bytes_per_s: int) -> None:
        """Set a quota for producers with this client.id; 0 removes it."""
        quota = ["--alter", "--add-config", f"producer_byte_rate={bytes_per_s}"]
        if not bytes_per_s:
            quota = ["--alter", "--delete-config", "producer_byte_rate"]
        self._tool("kafka.admin.ConfigCommand", *quota, "--entity-type", "clients", "--entity-name", client)

    def allow(self, user: str, operation: AclOperation, topic: str = "", *, prefixed: bool = False) -> None:
        """Allow a user an operation on a topic, or all with this prefix; without a topic, on the cluster."""
        self._change_acl(AdminClient.create_acls, user, operation, topic, prefixed=prefixed)

    def forbid(self, user: str, operation: AclOperation, topic: str = "", *, prefixed: bool = False) -> None:
        """Revoke what `allow` allowed."""
        self._change_acl(AdminClient.delete_acls, user, operation, topic, prefixed=prefixed)

    def _change_acl(
        self, change: Any, user: str, operation: AclOperation, topic: str, *, prefixed: bool
    ) -> None:
        given = change is AdminClient.create_acls
        acl = (AclBinding if given else AclBindingFilter)(
            ResourceType.TOPIC if topic else ResourceType.BROKER,
            topic or "kafka-cluster",
            ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        admin = self._admin()
        change(admin, [acl])[acl].result(_TIMEOUT_S)

    def allow_transactions(self, user: str, operation: AclOperation, prefix: str) -> None:
        """Allow a user an operation on all transactional ids with this prefix."""
        acl = AclBinding(
            ResourceType.TRANSACTIONAL_ID,
            prefix,
            ResourcePatternType.PREFIXED,
            f"User:{user}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        admin = self._admin()
        admin.create_acls([acl])[acl].result(_TIMEOUT_S)

    def delete_topic(self, name: str) -> None:
        """Remove a topic."""
        admin = self._admin()
        admin.delete_topics([name])[name].result(_TIMEOUT_S)

    def recreate_topic(self, name: str) -> None:
        """Delete a topic and create it again; a job that does not find it may be faster at that."""
        self.delete_topic(name)
        with contextlib.suppress(KafkaException):
            self.create_topic(name)

    def topic_id(self, name: str) -> str:
        """A topic's id, which no topic that replaces it has."""
        admin = self._admin()
        found = admin.describe_topics(TopicCollection([name]))[name].result(_TIMEOUT_S)
        return str(found.topic_id)

    def topics(self) -> list[str]:
        """All topics except the broker's internal ones."""
        found = self._admin().list_topics(timeout=_TIMEOUT_S).topics
        return sorted(found.keys() - _OF_THE_BROKER)

    def partitions(self, topic: str) -> int:
        """The number of a topic's partitions; 0 if there is no such topic."""
        found = self._admin().list_topics(timeout=_TIMEOUT_S).topics.get(topic)
        return len(found.partitions) if found else 0

    def setting(self, topic: str, name: str) -> str:
        """The value of a topic's setting."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        admin = self._admin()
        found = admin.describe_configs([resource])[resource].result(_TIMEOUT_S)
        return str(found[name].value)

    def send(self, topic: str, value: str | bytes | None, key: str | None = None) -> None:
        """Send one record to a topic."""
        producer = Producer({**self.plain, "acks": "all"})
        producer.produce(topic, value=value, key=key)
        producer.flush(_TIMEOUT_S)

    def records(self, topic: str) -> list[Message]:
        """All records of a topic that are visible now, in order by partition."""
        return [record for batch in self.batches(topic) for record in batch]

    def save(self, topic: str, directory: Path) -> None:
        """Write a topic's records in the files sink's format, in order by partition."""
        turn = directory / f"turn-{topic}"
        turn.mkdir(parents=True, exist_ok=True)
        with (turn / "part-00000.jsonl").open("wb") as file:
            for batch in self.batches(topic):
                file.writelines(map(_line, batch))

    def count(self, topic: str) -> int:
        """The number of records in a topic without compaction or transactions."""
        with self._consumer() as consumer:
            places = [TopicPartition(topic, number) for number in range(self.partitions(topic))]
            ends = [consumer.get_watermark_offsets(place, _TIMEOUT_S) for place in places]
        return sum(high - low for low, high in ends)

    def log_tail(self, lines: int = 40) -> str:
        """The end of the broker's log."""
        with contextlib.suppress(FileNotFoundError):
            text = (self._folder / "server.log").read_text(errors="replace")
            return "\n".join(text.splitlines()[-lines:])
        return ""

    def batches(self, topic: str) -> Iterator[list[Message]]:
        """The records of a topic that are visible now, by partition, in batches."""
        with self._consumer() as consumer:
            for number in range(self.partitions(topic)):
                place = TopicPartition(topic, number, OFFSET_BEGINNING)
                low, high = consumer.get_watermark_offsets(place, _TIMEOUT_S)
                consumer.assign([place])
                while low < high:
                    batch = consumer.consume(10_000, timeout=1.0)
                    if fault := next(filter(None, (record.error() for record in batch)), None):
                        raise KafkaException(fault)
                    yield batch
                    # After the last record there may be a transaction marker, which is not a record.
                    low = consumer.position([place])[0].offset

    @contextlib.contextmanager
    def _consumer(self) -> Iterator[Consumer]:
        with contextlib.closing(
            Consumer({**self.plain, "group.id": "looks-on", "enable.auto.commit": False})
        ) as consumer:
            yield consumer

    def _admin(self) -> AdminClient:
        return AdminClient(self.plain)

    @property
    def _properties(self) -> Path:
        return self._folder / "server.properties"

    def _format(self) -> None:
        protocol = self._security.protocol
        listeners = f"CLIENTS://127.0.0.1:{self._clients},PLAIN://127.0.0.1:{self._plain}"
        settings = {
            **self._settings,
            **self._security.settings,
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{self._controller}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": (f"CLIENTS:{protocol},PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT"),
            "controller.quorum.voters": self._voters,
            "log.dirs": str(self._folder / "data"),
        }
        lines = [f"{name}={value}".replace("\\", "\\\\") + "\n" for name, value in settings.items()]
        self._properties.write_text("".join(lines))
        users = [
            word
            for name, password in self._security.scram_users.items()
            for word in ("--add-scram", f"SCRAM-SHA-512=[name={name},password={password}]")
        ]
        command = [*_java("64m"), "kafka.tools.StorageTool", "format", "--config", str(self._properties)]
        command += ["--cluster-id", CLUSTER_ID, *users]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"can't format the broker's folder: {done.stdout}{done.stderr}")

    def _tool(self, tool: str, *arguments: str) -> None:
        """Run one of Kafka's own tools against the plain listener."""
        command = [*_java("64m"), tool, "--bootstrap-server", f"127.0.0.1:{self._plain}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
        if done.returncode != 0:
            raise RuntimeError(f"{tool} fails: {done.stdout}{done.stderr}")

    def wait_until_it_answers(self) -> None:
        """Wait until the broker answers. Raises RuntimeError with the end of its log if it does not."""
        deadline = time.monotonic() + _TIMEOUT_S
        admin = self._admin()
        while True:
            try:
                admin.list_topics(timeout=1.0)
            except KafkaException:
                if not self.running or time.monotonic() > deadline:
                    self.kill()
                    raise RuntimeError(f"Kafka does not start; its log ends:\n{self.log_tail()}") from None
            else:
                return

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        if self.running:
            self._process.send_signal(how)
        self._process.wait(_TIMEOUT_S)
        self._process = None


class ContainedBroker(KafkaBroker):
    """A broker started elsewhere, with the client's view only."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return self._bootstrap

    @property
    def plain(self) -> dict[str, Any]:
        """A client's configuration."""
        return {"bootstrap.servers": self._bootstrap, "log_level": 0}


def _line(record: Message) -> bytes:
    """A record as a line of the files sink."""
    given: Any = record.headers() or []
    headers = [{"key": key, "value": _text(value)} for key, value in given]
    fields = {
        "topic": record.topic(),
        "key": _json(record.key()),
        "value": _json(record.value()),
        "headers": headers,
    }
    return orjson.dumps(fields) + b"\n"


def _json(document: str | bytes | None) -> orjson.Fragment | None:
    return None if document is None else orjson.Fragment(document)


def _text(value: str | bytes | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value


def _java(heap: str) -> list[str]:
    return [
        *("java", f"-Xmx{heap}", "-XX:+UseSerialGC", "-Xshare:auto"),
        *os.environ.get("KAFKA_OPTS", "").split(),
        *("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Djava.net.preferIPv4Stack=true"),
        *("-cp", f"{_archives()}/*"),
    ]


def _archives() -> Path:
    return library(f"kafka-{_KAFKA.version}", (_KAFKA, _LOGGING), _SHA256)
