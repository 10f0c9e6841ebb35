"""The topics that events go to: found, or created as the settings say.

Owns what is known of topics. A topic is looked up when it is first written to, after a failure, and every few
seconds: somebody may have deleted it. The topic that replaces it lacks what was sent before. Topic ids tell
the two apart, and are kept in the state because this may happen while no job runs.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from adapters.kafka.client import client, create_client, has_token, renew
from adapters.kafka.errors import MAY_WRITE, Reason, message_of, refuses, sink_error
from engine.errors import ConfigError, SinkError, TidemarkError
from engine.expressions import matches

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from concurrent.futures import Future
    from typing import Any

    from confluent_kafka import TopicPartitionInfo

    from adapters.kafka.settings import KafkaSettings, TopicGroup

_TIMEOUT_S: Final = 10.0
_LOOK_EVERY_S: Final = 10.0
_ASK_S: Final = 3.0
_POLL_S: Final = 0.1
_APPEARS_S: Final = 0.02
_LOGIN_HINT: Final = "look at producer.sasl.mechanism and the user and password of producer.sasl.jaas.config"


class Brokers:
    """A cluster as an administrator asks it. Errors name the brokers."""

    def __init__(self, settings: KafkaSettings, monotonic: Callable[[], float]) -> None:
        self._settings, self._monotonic = settings, monotonic
        self._connect()
        self._reached = False
        self._where = f"kafka {settings.client.get('bootstrap.servers', '')}"

    def _connect(self) -> None:
        """Create the client, with the current credentials."""
        self._reason = Reason()
        # With idempotence it would request the right to write, and never work again if that is denied.
        config = {**client(self._settings.client, self._reason), "enable.idempotence": False}
        self._client: AdminClient = create_client(AdminClient, config)

    @property
    def admin(self) -> AdminClient:
        """The client; polling it lets it request another token in time."""
        self._client.poll(0)
        return self._client

    def reach(self) -> str:
        """Ask the brokers for their cluster's id, so that a wrong address or password shows.

        Raises SinkError, or ConfigError if the login is refused before the brokers were ever reached. With a
        token, only a second refusal counts: nothing polls a client between its creation and the first
        question, so a token that expires meanwhile isn't renewed.
        """
        try:
            return self._cluster_id()
        except ConfigError:
            if not has_token(self._settings.client):
                raise
            self._connect()
            return self._cluster_id()

    def _cluster_id(self) -> str:
        asked = self.admin.describe_cluster(request_timeout=_TIMEOUT_S)
        while not asked.done():
            self.admin.poll(_POLL_S)
            if self._reason.login_refused and not self._reached:
                text = self._reason.with_cause("the login is refused")
                raise ConfigError(f"{self._where}: {text}", hint=_LOGIN_HINT)
        try:
            cluster = asked.result(0).cluster_id
        except KafkaException as exc:
            raise self._unreached(exc.args[0]) from exc
        self._reached = True
        return str(cluster or "")

    def wait(self, asked: Collection[Future[Any]]) -> None:
        """Wait for answers; renews a login that expires meanwhile, as may happen between two lookups."""
        until_s = self._monotonic() + 2 * _TIMEOUT_S
        while not all(future.done() for future in asked) and self._monotonic() < until_s:
            self._client.poll(_POLL_S)
            if self._reason.take_refusal():
                with suppress(TidemarkError):  # reported with the answers
                    renew(self._settings.client, self._client, refused=True)

    def failed(self, topic: str, what: str, error: KafkaError) -> SinkError:
        """The error for what was asked about a topic."""
        if error.code() in {KafkaError._TIMED_OUT, KafkaError._TRANSPORT}:  # noqa: SLF001  their public names
            return self._unreached(error)
        return sink_error(error, f"the topic {what}: {message_of(error)}", topic)

    def _unreached(self, error: KafkaError) -> SinkError:
        self._client.poll(0)  # delivers the reason
        with suppress(TidemarkError):  # reported by the next attempt
            renew(self._settings.client, self._client)
        text = self._reason.with_cause(f"not reached: {message_of(error)}")
        return SinkError(text, where=self._where, hint=self._reason.hint)


class Topics:
    """Looks topics up at the `brokers`, and creates missing ones."""

    def __init__(self, settings: KafkaSettings, monotonic: Callable[[], float]) -> None:
        self._settings, self._monotonic = settings, monotonic
        self.brokers = Brokers(settings, monotonic)
        self._known: dict[str, int] = {}
        self._ids: Mapping[str, str] = {}
        self._remade: set[str] = set()
        self._missing: set[str] = set()
        self._looked_s = monotonic()

    def partitions(self, topic: str) -> int:
        """The number of partitions of a topic that `ensure` has found or created."""
        return self._known[topic]

    def ensure(self, topics: Iterable[str], extra: Mapping[str, str] | None = None) -> dict[str, SinkError]:
        """Make sure that topics exist. `extra` are settings of new ones where no rule sets them.

        Returns why some are unavailable, by topic. Raises SinkError, or SinkRefused for rules that the
        brokers will never accept.
        """
        refused: dict[str, SinkError] = {}
        if self._monotonic() - self._looked_s > _LOOK_EVERY_S:
            self.forget()
        missing = self._look_up([topic for topic in topics if topic not in self._known], refused)
        if missing:
            self._create(missing, extra or {}, refused)
            self._wait_for([topic for topic in missing if topic not in refused], refused)
        return refused

    def refusals(self, topics: Iterable[str]) -> dict[str, SinkError]:
        """Why some topics would not let us write, or create them; writes nothing.

        For a topic that does not exist yet, it can't be known whether it may be written to. Raises SinkError,
        or SinkRefused for rules that the brokers will never accept.
        """
        denied: dict[str, SinkError] = {}
        missing = []
        asked = self.brokers.admin.describe_topics(
            TopicCollection(list(topics)), request_timeout=_TIMEOUT_S, include_authorized_operations=True
        )
        self.brokers.wait(asked.values())
        for topic, answer in asked.items():
            try:
                allowed = answer.result(2 * _TIMEOUT_S).authorized_operations
            except KafkaException as exc:
                if exc.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    missing.append(topic)
                else:
                    self._note_failed(topic, "can't be looked up", exc.args[0], denied)
                continue
            if allowed and AclOperation.WRITE not in allowed:
                denied[topic] = SinkError("the topic may not be written to", where=topic, hint=MAY_WRITE)
        if missing and self._settings.create_topics:
            self._request(missing, {}, denied, validate_only=True)
        return denied

    def obstacle(self, topic: str) -> str:
        """What keeps a topic from accepting events, as far as the brokers say; empty if they say nothing."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        try:
            asked = self.brokers.admin.describe_topics(TopicCollection([topic]), request_timeout=_ASK_S)
            configs = self.brokers.admin.describe_configs([resource], request_timeout=_ASK_S)
            partitions = asked[topic].result(2 * _ASK_S).partitions
            least = int(configs[resource].result(2 * _ASK_S)["min.insync.replicas"].value)
        except (KafkaException, TimeoutError):
            return ""
        return next(filter(None, (lack(partition, least) for partition in partitions)), "")

    @property
    def ids(self) -> Mapping[str, str]:
        """The ids of the topics that `ensure` has found or created, by name."""
        return self._ids

    def resume(self, ids: Mapping[str, str]) -> None:
        """Restore the ids that topics had when an earlier job wrote to them."""
        self._ids = {**ids, **self._ids}

    def take_remade(self) -> frozenset[str]:
        """The topics found, since the last call, to have replaced others with the same name."""
        remade, self._remade = frozenset(self._remade), set()
        return remade

    def forget(self) -> None:
        """Look everything up again: a topic may have been deleted."""
        self._looked_s = self._monotonic()
        self._known.clear()

    def _look_up(self, topics: list[str], refused: dict[str, SinkError]) -> list[str]:
        """Look topics up; returns those that don't exist."""
        if not topics:
            return []
        missing = []
        asked = self.brokers.admin.describe_topics(TopicCollection(topics), request_timeout=_TIMEOUT_S)
        self.brokers.wait(asked.values())
        for topic, answer in asked.items():
            try:
                found = answer.result(2 * _TIMEOUT_S)
                self._known[topic] = len(found.partitions)
                self._missing.discard(topic)
                self._note_id(topic, str(found.topic_id or ""))
            except KafkaException as exc:
                if exc.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    missing.append(topic)
                else:
                    self._note_failed(topic, "can't be looked up", exc.args[0], refused)
        return missing

    def _note_id(self, topic: str, found: str) -> None:
        known = self._ids.get(topic)
        if known == found or not found:
            return
        if known is not None:
            self._remade.add(topic)
        self._ids = {**self._ids, topic: found}

    def _create(self, topics: list[str], extra: Mapping[str, str], refused: dict[str, SinkError]) -> None:
        if not self._settings.create_topics:
            for topic in topics:
                # A broker that creates topics by itself does so when asked for one.
                self.brokers.admin.list_topics(topic, timeout=_TIMEOUT_S)
            return
        self._request(topics, extra, refused)

    def _request(
        self,
        topics: list[str],
        extra: Mapping[str, str],
        refused: dict[str, SinkError],
        *,
        validate_only: bool = False,
    ) -> None:
        """Request topics to be created, or only ask whether they would be."""
        asked = self.brokers.admin.create_topics(
            [self._rules(topic, extra) for topic in topics],
            request_timeout=_TIMEOUT_S,
            validate_only=validate_only,
        )
        self.brokers.wait(asked.values())
        for topic, answer in asked.items():
            try:
                answer.result(2 * _TIMEOUT_S)
            except KafkaException as exc:
                if exc.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    self._note_failed(topic, "can't be created", exc.args[0], refused)

    def _rules(self, topic: str, extra: Mapping[str, str]) -> NewTopic:
        group = group_of(topic, self._settings.topics)
        return NewTopic(
            topic,
            num_partitions=group.partitions,
            replication_factor=group.replication_factor,
            config={**extra, **group.config},
        )

    def _wait_for(self, topics: list[str], refused: dict[str, SinkError]) -> None:
        # A topic that did not appear in time is not waited for each time that it is asked for.
        some_new = not self._missing.issuperset(topics)
        deadline = self._monotonic() + (_TIMEOUT_S if some_new else 0.0)
        while topics := self._look_up(topics, refused):
            if self._monotonic() > deadline:
                self._missing.update(topics)
                hint = "create it, or set topic.creation.enable=true"
                for topic in topics:
                    refused[topic] = SinkError("the topic is missing", where=topic, hint=hint)
                return
            self.brokers.admin.poll(_APPEARS_S)

    def _note_failed(self, topic: str, what: str, error: KafkaError, refused: dict[str, SinkError]) -> None:
        """Record an error that concerns only its topic; raise any other."""
        failed = self.brokers.failed(topic, what, error)
        if not refuses(error):
            raise failed
        refused[topic] = failed


def lack(partition: TopicPartitionInfo, least: int) -> str:
    """What a partition lacks to accept events; empty if nothing.

    `least` is the topic's required number of in-sync replicas.
    """
    if getattr(partition, "leader", None) is None:  # its type says that there always is one
        return f"partition {partition.id} has no leader"
    # Since Kafka 4, brokers require no more replicas than a partition has.
    needed = min(least, len(partition.replicas))
    if len(partition.isr) < needed:
        return f"partition {partition.id} has {len(partition.isr)} of {needed} replicas in sync that it needs"
    return ""


def group_of(topic: str, groups: Sequence[TopicGroup]) -> TopicGroup:
    """The first group that takes this topic. The last group takes all."""
    return next(group for group in groups if _takes(group, topic))


def _takes(group: TopicGroup, topic: str) -> bool:
    """Unlike table names, topic names are case-sensitive."""
    if not matches(group.include, topic, ignore_case=False):
        return False
    return not matches(group.exclude, topic, ignore_case=False)
