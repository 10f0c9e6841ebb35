from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest

from adapters.lake.change_rows import ChangeRows, change_schema
from adapters.lake.record_rows import _changes
from engine.errors import ConfigError
from tests.change_lines import TOPIC, envelope, line

OLD, NEW = {"id": 1, "note": "é😀"}, {"id": 1, "note": None}
Record = tuple[str, int, int, bytes | None]


def value(op: str, **images: Any) -> bytes:
    """The value of a record, as the files sink would write it."""
    text = line(op, **images)
    return text[text.index('"value":') + len('"value":') : text.rindex(',"headers":')].encode()


def rows(*records: Record, kind: pa.DataType | None = None) -> list[dict[str, Any]]:
    topics, partitions, offsets, values = zip(*records, strict=True)
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(topics),
            pa.array(partitions, pa.int32()),
            pa.array(offsets, pa.int64()),
            pa.array(values, kind or pa.binary()),
        ],
        ["topic", "partition", "offset", "value"],
    )
    made = ChangeRows(TOPIC, change_schema(envelope(), TOPIC))
    return [row for batch in _changes(made, [batch, batch.slice(0, 0)]) for row in batch.to_pylist()]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_records_of_a_topic_become_rows_at_their_places(kind: pa.DataType):
    found = rows(
        (TOPIC, 3, 70, value("c", after=OLD)),
        ("other", 3, 70, b"no event"),
        (TOPIC, 1, 2**40, value("u", before=OLD, after=NEW)),
        (TOPIC, 1, 2**40 + 1, value("d", before=NEW)),
        (TOPIC, 1, 2**40 + 2, None),
        kind=kind,
    )

    assert [(row["_change_type"], row["note"], tuple(row["_sequence"].values())) for row in found] == [
        ("insert", "é😀", (0, 3, 70, 1)),
        ("update_preimage", "é😀", (0, 1, 2**40, 0)),
        ("update_postimage", None, (0, 1, 2**40, 1)),
        ("delete", None, (0, 1, 2**40 + 1, 1)),
    ]
    assert [row["_commit_version"] for row in found] == [70, 2**40, 2**40, 2**40 + 1]


def test_records_without_schemas_are_refused():
    with pytest.raises(ConfigError, match=r"value\.converter\.schemas\.enable"):
        rows((TOPIC, 0, 1, orjson.dumps({"op": "c", "after": OLD})))
