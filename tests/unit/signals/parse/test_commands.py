"""From a signal to a command, or to a refusal that names the bad field."""

from __future__ import annotations

import orjson
import pytest

from engine.errors import SignalError
from engine.expressions import bounded_matcher
from engine.model import (
    Channel,
    CollectionId,
    ExecuteSnapshot,
    Limit,
    LogMessage,
    PauseSnapshot,
    Purpose,
    ResumeSnapshot,
    StopSnapshot,
    Target,
)
from signals.model import Signal
from signals.parse.budget import MAX_DATA, MAX_SCOPED
from signals.parse.commands import parse
from signals.parse.names import KnownNames

CUSTOMERS = CollectionId(("public", "customers"))
ORDERS = CollectionId(("public", "orders"))
COMP = CollectionId(("public", "comp"))
KNOWN = KnownNames((CUSTOMERS, ORDERS, COMP), bounded_matcher)
EVENTS, LEAF_A, LEAF_B = (CollectionId(("parted", name)) for name in ("events", "events_a", "events_b"))
WITH_GROUP = KnownNames((ORDERS, LEAF_B, LEAF_A), bounded_matcher, groups={EVENTS: [LEAF_A, LEAF_B]})

EXECUTE = "execute-snapshot"
STOP = "stop-snapshot"


def read(type_, data, id_="ad-hoc-1", known=KNOWN):
    text = data if data is None or isinstance(data, str) else orjson.dumps(data).decode()
    return parse(Signal(Channel.SOURCE, "0/1A", id_, type_, text), known)


def execute(**fields):
    return read(EXECUTE, {name.replace("_", "-"): value for name, value in fields.items()})


def refusal(type_, data) -> str:
    with pytest.raises(SignalError) as caught:
        read(type_, data)
    return str(caught.value)


def test_execute_names_its_targets_in_the_order_asked_for():
    accepted = execute(data_collections=["public.orders", "public.customers"], type="incremental")

    assert accepted.command == ExecuteSnapshot("0/1A", (Target(ORDERS), Target(CUSTOMERS)), "ad-hoc-1")
    assert accepted.notes == ()


def test_a_collection_named_twice_is_read_once():
    accepted = execute(data_collections=["public.orders", "public.*", "public.orders"])

    assert [target.collection for target in accepted.command.targets] == [ORDERS, CUSTOMERS, COMP]


@pytest.mark.parametrize("type_", ["incremental", "INCREMENTAL", "Incremental", "", " ", None])
def test_execute_is_incremental_in_any_case_and_by_default(type_):
    assert execute(data_collections=["public.orders"], type=type_).command.targets == (Target(ORDERS),)


def test_an_empty_list_does_nothing():
    accepted = execute(data_collections=[])

    assert accepted.command == ExecuteSnapshot("0/1A", (), "ad-hoc-1")


def test_names_are_trimmed():
    assert execute(data_collections=["  public.orders "]).command.targets == (Target(ORDERS),)


def test_the_type_of_a_padded_column_is_read():
    accepted = read(EXECUTE + "     ", {"data-collections": []})

    assert accepted.command == ExecuteSnapshot("0/1A", (), "ad-hoc-1")


def test_what_matches_is_run_and_what_does_not_is_said():
    accepted = execute(data_collections=["public.orders", "public.custmers"])

    assert accepted.command.targets == (Target(ORDERS),)
    assert accepted.notes == ("no collection matches 'public.custmers' (did you mean 'public.customers'?)",)


def test_condition_and_surrogate_key_hold_for_every_target():
    accepted = execute(
        data_collections=["public.orders", "public.comp"],
        additional_condition="id > 3 AND name <> 'f9'",
        surrogate_key="id",
    )

    assert accepted.command.targets == (
        Target(ORDERS, "id > 3 AND name <> 'f9'", "id"),
        Target(COMP, "id > 3 AND name <> 'f9'", "id"),
    )


@pytest.mark.parametrize("blank", ["", "  ", None])
def test_blank_condition_and_surrogate_key_are_none(blank):
    accepted = execute(data_collections=["public.orders"], additional_condition=blank, surrogate_key=blank)

    assert accepted.command.targets == (Target(ORDERS),)


def test_conditions_by_collection_the_first_that_matches_counts():
    accepted = execute(
        data_collections=["public.*"],
        additional_conditions=[
            {"data-collection": "public.orders", "filter": "a = 1"},
            {"data-collection": r"public\.(orders|comp)", "filter": "b = 2"},
        ],
    )

    assert accepted.command.targets == (Target(CUSTOMERS), Target(ORDERS, "a = 1"), Target(COMP, "b = 2"))


def test_priority_limits_and_dry_run_are_of_the_whole_signal():
    command = read(
        EXECUTE,
        {
            "data-collections": ["public.orders", "public.comp"],
            "priority": -7,
            "max-rows-per-second": 500,
            "max-bytes-per-second": 1,
            "dry-run": True,
        },
    ).command

    assert command == ExecuteSnapshot(
        "0/1A", (Target(ORDERS), Target(COMP)), "ad-hoc-1", -7, Limit(500, 1), dry_run=True
    )


def test_null_is_as_if_they_were_missing():
    fields = ("priority", "max-rows-per-second", "max-bytes-per-second", "dry-run")
    command = read(EXECUTE, {"data-collections": ["public.comp"], **dict.fromkeys(fields)}).command

    assert command == ExecuteSnapshot("0/1A", (Target(COMP),), "ad-hoc-1")


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("priority", "high", "'priority' must be a whole number, not a string"),
        ("priority", 1.5, "'priority' must be a whole number, not a number"),
        ("priority", True, "'priority' must be a whole number, not a boolean"),
        ("priority", 2**31, "'priority' must be from -2147483647 to 2147483647"),
        ("max-rows-per-second", 0, "'max-rows-per-second' must be from 1 to 9223372036854775807"),
        ("max-rows-per-second", -5, "'max-rows-per-second' must be from 1 to 9223372036854775807"),
        ("max-rows-per-second", 2**63, "'max-rows-per-second' must be from 1 to 9223372036854775807"),
        ("max-bytes-per-second", "1m", "'max-bytes-per-second' must be a whole number, not a string"),
        ("max-bytes-per-second", 0, "'max-bytes-per-second' must be from 1 to 9223372036854775807"),
        ("dry-run", "yes", "'dry-run' must be true or false, not a string"),
        ("dry-run", 1, "'dry-run' must be true or false, not a number"),
    ],
)
def test_ill_typed_numbers_and_flags_are_refused_with_the_reason(field, value, said):
    with pytest.raises(SignalError) as caught:
        read(EXECUTE, {"data-collections": ["public.comp"], field: value})
    assert str(caught.value) == said


def test_unknown_fields_have_no_effect_and_are_said():
    accepted = execute(data_collections=["public.orders"], additional_conditon="a = 1")

    assert accepted.command.targets == (Target(ORDERS),)
    assert accepted.notes == (
        "the field 'additional-conditon' has no effect (did you mean 'additional-condition'?)",
    )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "NULL"),
        ("", "empty"),
        ("not json", "no valid JSON"),
        ('{"data-collections": ["public.orders"]}, "type": "incremental"', "no valid JSON"),
        ('{"data-collections": ["public.orders"]', "no valid JSON"),
        ("[]", "not an array"),
        ('"text"', "not a string"),
        ("null", "not null"),
        ("1", "not a number"),
        ({}, "'data-collections' is missing"),
        ({"data-collections": None}, "'data-collections' is missing"),
        ({"data-collections": "public.orders"}, "'data-collections' must be an array"),
        ({"data-collections": {"a": 1}}, "not an object"),
        ({"data-collections": [["public.orders"]]}, "entry 1 of 'data-collections'"),
        ({"data-collections": ["public.orders", None]}, "entry 2 of 'data-collections'"),
        ({"data-collections": ["public.nosuch"]}, "no collection matches 'public.nosuch'"),
        ({"data-collections": [" "]}, "no collection matches ''"),
        ({"data-collections": ["("]}, "can't be read"),
        ({"data-collections": ["public.orders", "("]}, "can't be read"),
        ({"data-collections": ["public.orders"], "type": "full"}, "no snapshot type 'full'"),
        ({"data-collections": ["public.orders"], "type": True}, "'type' must be a string, not a boolean"),
        ({"data-collections": ["public.orders"], "additional-condition": 1}, "'additional-condition' must"),
        ({"data-collections": ["public.orders"], "additional-condition": "a\0"}, "NUL"),
        ({"data-collections": ["public.orders"], "surrogate-key": ["id"]}, "'surrogate-key' must"),
        ({"data-collections": ["public.orders"], "surrogate-key": "i\0d"}, "'surrogate-key' holds a NUL"),
    ],
)
def test_bad_execute_is_refused_naming_the_field(data, said):
    assert said in refusal(EXECUTE, data)


def test_a_blocking_snapshot_is_of_blocking_targets():
    accepted = read(EXECUTE, {"type": " Blocking ", "data-collections": ["public.orders"]})

    assert accepted.command == ExecuteSnapshot("0/1A", (Target(ORDERS, blocking=True),), "ad-hoc-1")
    assert accepted.command.blocking


@pytest.mark.parametrize("purpose", [Purpose.VERIFY, Purpose.REPAIR])
def test_a_verification_or_repair_is_of_whole_collections(purpose):
    accepted = read(EXECUTE, {"data-collections": ["public.orders"], "type": str(purpose)})

    assert accepted.command == ExecuteSnapshot("0/1A", (Target(ORDERS, purpose=purpose),), "ad-hoc-1")


def test_no_signal_asks_for_a_part_of_a_repair():
    assert "no snapshot type" in refusal(EXECUTE, {"data-collections": ["public.orders"], "type": "mend"})


@pytest.mark.parametrize("type_", ["verify", "repair"])
@pytest.mark.parametrize(
    "part",
    [{"additional-condition": "id > 3"}, {"surrogate-key": "id"}, {"keys": [1]}, {"ranges": [{"start": 1}]}],
)
def test_a_verification_or_repair_of_a_part_is_refused(part, type_):
    with pytest.raises(SignalError, match=f"{type_!r} compares whole collections"):
        read(EXECUTE, {"data-collections": ["public.orders"], "type": type_, **part})


@pytest.mark.parametrize("type_", ["incremental", "blocking"])
def test_a_stop_means_the_snapshots_of_its_type(type_):
    accepted = read(STOP, {"type": type_, "data-collections": ["public.orders"]})

    assert accepted.command == StopSnapshot("0/1A", (ORDERS,), blocking=type_ == "blocking")


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        ({"data-collection": "public.orders"}, "'additional-conditions' must be an array"),
        (["a = 1"], "entry 1 of 'additional-conditions' must be an object"),
        ([{"filter": "a = 1"}], "no 'data-collection'"),
        ([{"data-collection": "public.orders", "filtr": "a = 1"}], "filtr"),
        ([{"data-collection": "public.orders", "filter": 1}], "'filter' must be a string"),
        ([{"data-collection": "public.comp", "filter": "a = 1"}], "matches 'public.comp'"),
    ],
)
def test_bad_conditions_are_refused_rather_than_read_without(conditions, said):
    data = {"data-collections": ["public.orders"], "additional-conditions": conditions}

    assert said in refusal(EXECUTE, data)


def test_two_kinds_of_condition_contradict():
    data = {
        "data-collections": ["public.orders"],
        "additional-condition": "a = 1",
        "additional-conditions": [{"data-collection": "public.orders", "filter": "b = 2"}],
    }

    assert "exclude each other" in refusal(EXECUTE, data)


def test_data_without_end_is_not_read():
    assert "at most" in refusal(EXECUTE, " " * MAX_SCOPED + "{}")
    assert "at most" in refusal(STOP, " " * MAX_DATA + "{}")


def test_a_long_condition_for_very_many_collections_is_not_taken():
    known = KnownNames((CollectionId(("public", f"t{number}")) for number in range(100)), bounded_matcher)
    data = orjson.dumps({"data-collections": ["public.*"], "additional-condition": "x" * 60_000}).decode()

    with pytest.raises(SignalError, match="6000000 characters"):
        parse(Signal(Channel.SOURCE, "0/1A", "a", EXECUTE, data), known)


@pytest.mark.parametrize("field", ["id", "surrogate-key"])
def test_a_name_has_a_greatest_length(field):
    data = {"data-collections": ["public.orders"], **({field: "x" * 2_000} if field != "id" else {})}

    with pytest.raises(SignalError, match="2000 characters"):
        read(EXECUTE, data, id_="x" * 2_000 if field == "id" else "a")


def test_of_many_notes_the_first_are_told():
    fields = {f"stray{number}": 0 for number in range(500)}

    accepted = read(EXECUTE, {"data-collections": ["public.orders"], **fields})

    assert len(accepted.notes) == 11
    assert accepted.notes[-1] == "490 more such notes"


def test_stop_of_named_collections():
    accepted = read(STOP, {"type": "INCREMENTAL", "data-collections": [r"public\.(orders|comp)"]})

    assert accepted.command == StopSnapshot("0/1A", (ORDERS, COMP))


@pytest.mark.parametrize("fields", [{}, {"data-collections": None}, {"data-collections": []}])
def test_stop_without_collections_stops_everything(fields):
    assert read(STOP, {"type": "incremental", **fields}).command == StopSnapshot("0/1A", None)


@pytest.mark.parametrize("data", [None, "", "{}", '{"type": null}', '{"data-collections": []}'])
def test_a_stop_without_type_means_incremental_snapshots(data):
    assert read(STOP, data).command == StopSnapshot("0/1A", None)


@pytest.mark.parametrize("type_", [STOP, "pause-snapshot", "resume-snapshot"])
@pytest.mark.parametrize("fields", [{}, {"type": "incremental"}, {"data-collections": None}], ids=str)
def test_unknown_fields_without_collections_are_refused(type_, fields):
    """`data-collection` may be a misspelt `data-collections`, and everything would stop."""
    text = refusal(type_, {**fields, "data-collection": ["public.orders"]})

    assert text.startswith("'data-collections' is missing, and the field 'data-collection' has no effect")


def test_unknown_fields_beside_an_empty_list_have_no_effect():
    accepted = read(STOP, {"type": "incremental", "data-collections": [], "why": "load"})

    assert accepted.command == StopSnapshot("0/1A", None)
    assert accepted.notes == ("the field 'why' has no effect",)


def test_a_stop_without_type_but_with_unknown_fields_is_refused():
    """`typ` may be a misspelt `type`, and snapshots of the other type would stop."""
    text = refusal(STOP, {"typ": "blocking", "data-collections": ["public.orders"]})

    assert text.startswith("'type' is missing, and the field 'typ' has no effect")


def test_stop_of_what_is_not_there_is_refused():
    data = {"type": "incremental", "data-collections": ["public.nosuch"]}

    assert "no collection matches 'public.nosuch'" in refusal(STOP, data)


@pytest.mark.parametrize(
    ("type_", "command"), [("pause-snapshot", PauseSnapshot), ("resume-snapshot", ResumeSnapshot)]
)
class TestPauseAndResume:
    """Debezium's have no data and mean everything; ours may name collections."""

    @pytest.mark.parametrize(
        "data", [None, "", " ", "{}", '{"type": "incremental"}', '{"data-collections": []}']
    )
    def test_without_collections_everything_is_meant(self, type_, command, data):
        assert read(type_, data).command == command("0/1A", None)

    def test_collections_may_be_named(self, type_, command):
        accepted = read(type_, {"data-collections": [r"public\.(orders|comp)"], "why": "load"})

        assert accepted.command == command("0/1A", (ORDERS, COMP))
        assert accepted.notes == ("the field 'why' has no effect",)

    @pytest.mark.parametrize(
        ("data", "said"),
        [
            ("{", "no valid JSON"),
            ("[]", "must be a JSON object"),
            ('{"type": "blocking"}', "a blocking snapshot can't be paused"),
            ('{"data-collections": ["public.nosuch"]}', "no collection matches"),
        ],
    )
    def test_what_can_t_be_meant_is_refused(self, type_, command, data, said):  # noqa: ARG002
        assert said in refusal(type_, data)


class TestNamesOfGroups:
    """A partitioned table's name stands for its partitions, `schema.table` for `database.schema.table`."""

    def targets(self, *names, **fields):
        data = {"data-collections": names, **fields}
        return read(EXECUTE, data, known=WITH_GROUP).command.targets

    def test_a_group_s_collections_are_read_in_its_place_with_its_condition(self):
        condition = {"additional-condition": "x > 1"}

        assert self.targets("public.orders", "parted.events", **condition) == (
            Target(ORDERS, "x > 1"), Target(LEAF_A, "x > 1"), Target(LEAF_B, "x > 1"),
        )  # fmt: skip

    def test_a_pattern_that_matches_a_group_and_its_collections_reads_each_once(self):
        assert self.targets("parted.*") == (Target(LEAF_B), Target(LEAF_A))

    @pytest.mark.parametrize("named", ["parted.events", "parted.*", "parted.events_a"])
    def test_the_condition_of_a_group_is_that_of_its_collections(self, named):
        conditions = [
            {"data-collection": "parted.events_a", "filter": "a"},
            {"data-collection": "parted.events.*", "filter": "b"},
        ]
        targets = self.targets(named, **{"additional-conditions": conditions})

        assert {target.collection: target.condition for target in targets} in (
            {LEAF_A: "a", LEAF_B: "b"},
            {LEAF_A: "a"},
        )

    @pytest.mark.parametrize("named", ["parted.events", "parted.*"])
    def test_keys_may_be_those_of_a_group(self, named):
        assert {target.collection for target in self.targets(named, keys=[[1]])} == {LEAF_A, LEAF_B}

    def test_keys_may_be_those_of_the_only_collection_of_a_group(self):
        known = KnownNames((ORDERS,), bounded_matcher, groups={CollectionId(("orders",)): [ORDERS]})
        data = {"data-collections": [".*orders"], "keys": [[1]]}

        assert len(read(EXECUTE, data, known=known).command.targets) == 1

    def test_keys_are_not_those_of_a_group_and_others(self):
        data = {"data-collections": ["parted.events", "public.orders"], "keys": [[1]]}
        with pytest.raises(SignalError, match="the signal names 3"):
            read(EXECUTE, data, known=WITH_GROUP)

    @pytest.mark.parametrize(
        ("type_", "command"),
        [(STOP, StopSnapshot), ("pause-snapshot", PauseSnapshot), ("resume-snapshot", ResumeSnapshot)],
    )
    def test_a_group_is_stopped_paused_and_resumed_whole(self, type_, command):
        data = {"data-collections": ["parted.events", "parted.events_b"]}

        assert read(type_, data, known=WITH_GROUP).command == command("0/1A", (LEAF_A, LEAF_B))


def test_log_puts_the_position_in_the_first_braces():
    accepted = read("log", {"message": "hello {} {}"})

    assert accepted.command == LogMessage("0/1A", "hello 0/1A {}")


@pytest.mark.parametrize("data", ["{}", '{"message": null}', '{"message": " "}'])
def test_log_without_message_is_refused(data):
    assert "'message' is missing" in refusal("log", data)


@pytest.mark.parametrize(
    ("type_", "said"),
    [
        (None, "no type"),
        ("", "no type"),
        ("execute-snapsht", "did you mean 'execute-snapshot'?"),
        ("EXECUTE-SNAPSHOT", "did you mean 'execute-snapshot'?"),
        (
            "unknown-type",
            "no signal type 'unknown-type'; known: execute-snapshot, stop-snapshot",
        ),
        ("schema-changes", "for SQL Server alone"),
        ("snapshot-window-open", "marks a window"),
    ],
)
def test_other_types_are_refused_naming_the_known_ones(type_, said):
    text = refusal(type_, "{}")

    assert said in text
    assert "known: execute-snapshot" in text


def test_an_id_may_be_missing():
    assert read("log", {"message": "x"}, id_=None).command == LogMessage("0/1A", "x")
