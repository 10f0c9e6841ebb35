"""Who may send rows beside the turns: where executors can log in, and where producers are kept."""

from __future__ import annotations

import pytest

from adapters.kafka.beside.row_task import SendRows, is_portable, keeps_producers
from adapters.kafka.settings import KafkaSettings
from engine.config.sinks.kafka_login import LINE
from engine.config.text.references import Hidden
from engine.errors import SinkError


@pytest.mark.parametrize(
    ("client", "portable"),
    [
        ({"bootstrap.servers": "broker:9092", "sasl.password": "secret"}, True),
        ({"sasl.password": Hidden("secret", "${env:PASSWORD}")}, True),
        ({"sasl.password": Hidden("secret", "${file:/run/password}")}, False),
        ({"ssl.ca.location": "/etc/ca.pem"}, False),
        ({"sasl.kerberos.keytab": "/etc/job.keytab"}, False),
    ],
)
def test_executors_elsewhere_send_if_they_need_no_file_of_the_driver(client, portable):
    assert is_portable(KafkaSettings(client)) is portable


def test_a_producer_that_logs_in_by_a_line_is_not_kept():
    assert keeps_producers(KafkaSettings({"sasl.username": "job"}))
    assert not keeps_producers(KafkaSettings({LINE: "…"}))


def test_a_producer_with_an_id_never_takes_it_when_it_sends():
    send = SendRows(KafkaSettings({"bootstrap.servers": "127.0.0.1:1"}), "job-1", 0, keeps=True)

    with pytest.raises(SinkError, match="job-1: the producer that was prepared is gone"):
        send(None)  # type: ignore[arg-type] # it is not looked at
