"""What keeps a topic from taking events, in words."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Node, TopicPartitionInfo

from adapters.kafka.topics import lack


def partition(replicas: int, in_sync: int, leader: Any = ...) -> TopicPartitionInfo:
    nodes = [Node(number, "host", 9092) for number in range(replicas)]
    return TopicPartitionInfo(7, nodes[0] if leader is ... else leader, nodes, nodes[:in_sync])


@pytest.mark.parametrize(
    ("found", "least", "said"),
    [
        (partition(3, 3), 2, ""),
        (partition(3, 2), 2, ""),
        (partition(1, 1), 2, ""),
        (partition(3, 1), 2, "partition 7 has 1 of 2 replicas in sync that it needs"),
        (partition(3, 0, None), 1, "partition 7 has no leader"),
    ],
)
def test_what_a_partition_lacks(found, least, said):
    assert lack(found, least) == said
