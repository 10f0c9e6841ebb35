"""The documents of certificates and verdicts."""

from __future__ import annotations

import orjson
import pytest

from engine.model import CollectionId, Target
from engine.snapshot.extent import Extent
from engine.snapshot.queue_entry import Table
from engine.verify.certificate import Circumstances, certificate
from engine.verify.certified_ranges import CertifiedRanges
from engine.verify.copy import Findings, Span
from engine.verify.verdict import Verdict

T = CollectionId(("public", "t"))
NOW = Circumstances("tidemark test", {}, 1000, "5")


@pytest.mark.parametrize(("schema", "told"), [("ab12", "ab12"), ("", None)])
def test_both_name_the_schema_that_was_measured(schema, told):
    table = Table(1, "s", Target(T), Extent(1, 1, whole=True, schema=schema).begun(0))
    verdict = Verdict(Findings(), Span(1, 2), "5")

    documents = [certificate(table, CertifiedRanges("00"), NOW, ""), verdict.document(table, NOW, "")]

    assert [orjson.loads(document)["scope"]["schema"] for document in documents] == [told, told]
