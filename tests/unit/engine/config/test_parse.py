"""Properties into settings: defaults, refusals, contradictions, and every problem at once."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from adapters.postgres.driver_options import LIBPQ
from adapters.postgres.settings import Autocreate, PostgresSettings, SslMode
from adapters.sinks.settings import FilesSettings
from engine.config import (
    SnapshotMode,
    Watermarking,
    explain,
    load,
    parse,
    read,
)
from engine.config.catalogue import catalogue_of
from engine.config.properties.row import Kind
from engine.config.registry import BUILT_IN, SINKS
from engine.config.sources.selection import CaptureSettings
from engine.errors import ConfigError
from engine.events.settings import (
    BinaryMode,
    ColumnMask,
    DecimalMode,
    EventSettings,
    Fault,
    HeaderConverter,
)
from engine.model import Channel, CollectionId
from tests.unit.engine.config.least import POSTGRES as LEAST
from tests.unit.engine.config.least import problems_of

GOLDEN = sorted((Path(__file__).parents[3] / "golden" / "postgres").glob("*/connector.properties"))


def problems(**changes: str | None) -> tuple[str, ...]:
    """What is wrong with the least configuration after changes; `__` in a name stands for a dot."""
    return problems_of(LEAST, {name.replace("__", "."): value for name, value in changes.items()})


def test_the_least_configuration_has_debeziums_defaults():
    settings = parse(LEAST)

    assert settings.events == EventSettings("fulfillment", "inventory")
    assert settings.source_as(PostgresSettings).port == 5432
    assert settings.source_as(PostgresSettings).slot == "debezium"
    assert settings.source_as(PostgresSettings).publication_autocreate is Autocreate.ALL_TABLES
    assert settings.source_as(PostgresSettings).ssl_mode is SslMode.DISABLE
    assert settings.snapshot.chunk_size == 1024
    assert settings.snapshot.watermarking is Watermarking.VISIBILITY
    assert settings.sink.kind == "files"
    assert settings.job.window_max_chunks == 0
    (warning,) = settings.warnings
    assert "database.sslmode" in warning


def test_defaults_of_the_catalogue_are_those_of_the_values():
    """A settings class made with its required fields only says what an empty file says."""
    settings = parse(LEAST)
    given = {
        "checkpoint",
        "database",
        "directory",
        "host",
        "mode",
        "password",
        "user",
        "channels",
    }

    for part in (
        settings.source_as(PostgresSettings),
        settings.snapshot,
        settings.signals,
        settings.sink,
        settings.sink_as(FilesSettings),
        settings.job,
    ):
        for field in dataclasses.fields(part):
            if field.name not in given and field.default is not dataclasses.MISSING:
                assert field.default == getattr(part, field.name), field.name


@pytest.mark.parametrize("sink", BUILT_IN[SINKS])
def test_every_shape_reads_its_own_default(sink: str):
    for row in catalogue_of({"tidemark.sink": sink}).rows:
        if row.kind not in {Kind.IGNORED, Kind.RENAMED} and not row.is_pattern:
            assert row.standard() is not None, row.name


@pytest.mark.parametrize("sink", BUILT_IN[SINKS])
def test_no_name_stands_twice_in_the_catalogue(sink: str):
    names = [row.name for row in catalogue_of({"tidemark.sink": sink}).rows]

    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize(
    ("value", "converter"),
    [
        ("org.apache.kafka.connect.json.JsonConverter", HeaderConverter.JSON),
        ("JsonConverter", HeaderConverter.JSON),
        (" org.apache.kafka.connect.storage.SimpleHeaderConverter", HeaderConverter.SIMPLE),
    ],
)
def test_headers_are_written_by_the_converter_that_is_named(value: str, converter: HeaderConverter):
    schemas = {"header.converter.schemas.enable": "false"}

    events = parse(LEAST | {"header.converter": value} | schemas).events
    assert (events.header_converter, events.header_schemas) == (converter, False)
    assert parse(LEAST).events.header_converter is HeaderConverter.SIMPLE


def test_the_placeholder_may_be_any_bytes():
    events = parse(LEAST | {"unavailable.value.placeholder": "hex:aaBB"}).events

    assert events.unavailable_value == b"\xaa\xbb"


def test_a_property_of_one_possible_value_is_accepted_with_it_and_refused_with_another():
    names = {
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "JsonConverter",
        "flush.lsn.source": "true",
        "skip.messages.without.change": "false",
    }

    assert {setting.kind for setting in explain(names)} == {Kind.ACCEPTED}
    assert [setting.kind for setting in explain({"key.converter": "AvroConverter"})] == [Kind.REFUSED]
    assert [setting.kind for setting in explain({"flush.lsn.source": "maybe"})] == [Kind.LATER_REFUSED]


def test_events_are_shaped_as_the_properties_say():
    events = parse(
        LEAST
        | {
            "decimal.handling.mode": " String ",
            "binary.handling.mode": "base64-url-safe",
            "skipped.operations": "none",
            "tombstones.on.delete": "FALSE",
            "message.key.columns": "(.*).customers:email,first_name;public.nopk:a",
            "column.mask.hash.v2.MD5.with.salt.s.t": "public.customers.email",
            "column.mask.hash.sha-256.with.salt.s": "a.b.c",
            "column.mask.with.0.chars": "x",
            "column.truncate.to.4.chars": "public.mt.b,y",
            "table.include.list": r"s1\.t,s2\..*",
            "unavailable.value.placeholder": "hex:6869",
            "signal.data.collection": '"odd.schema"."Table"',
        }
    ).events

    assert events.decimals is DecimalMode.STRING
    assert events.binary is BinaryMode.BASE64_URL_SAFE
    assert events.skipped_operations == frozenset()
    assert not events.tombstones
    assert events.message_keys == (
        "(.*).customers.email",
        "(.*).customers.first_name",
        "public.nopk.a",
    )
    assert events.masks == (
        ColumnMask(("public.mt.b", "y"), length=4, truncate=True),
        ColumnMask(("x",), length=0),
        ColumnMask(("a.b.c",), hash="SHA-256", salt="s", version=1),
        ColumnMask(("public.customers.email",), hash="MD5", salt="s.t", version=2),
    )
    assert events.unavailable_value == b"hi"
    assert events.signal_collection == "odd.schema.Table"


def test_the_server_and_the_driver_get_their_options():
    postgres = parse(
        LEAST
        | {
            "database.port": "6543",
            "database.sslmode": "verify-full",
            "database.connectTimeout": "5",
            "database.autosave": "conservative",
            "database.initial.statements": "SET a='x;;y'; SET b=1;",
            "slot.stream.params": "origin=none;x=1",
            "publication.autocreate.mode": "filtered",
        }
    ).source_as(PostgresSettings)

    assert postgres.port == 6543
    assert postgres.ssl_mode is SslMode.VERIFY_FULL
    assert postgres.driver == {"autosave": "conservative", "connectTimeout": "5"}
    assert LIBPQ["connectTimeout"] == "connect_timeout"
    assert postgres.initial_statements == ("SET a='x;y'", "SET b=1")
    assert postgres.stream_params == (("origin", "none"), ("x", "1"))
    assert postgres.publication_autocreate is Autocreate.FILTERED


def test_the_job_gets_its_settings():
    settings = parse(
        LEAST
        | {
            "name": "n",
            "tidemark.spark.conf.spark.sql.shuffle.partitions": "4",
            "tidemark.spark.master": "local[2]",
            "tidemark.window.seconds": "0.5",
            "tidemark.window.max.bytes": "64m",
            "tidemark.span.max.rows": "10",
        }
    )

    assert settings.name == "n"
    assert settings.job.spark_conf == {"spark.sql.shuffle.partitions": "4"}
    assert settings.job.spark_master == "local[2]"
    assert (settings.job.window_seconds, settings.job.window_max_bytes) == (0.5, 64 << 20)
    assert settings.job.span_max_rows == 10


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"signal.data.collection": "public.s"}, {Channel.SOURCE}),
        ({"signal.file": "f"}, {Channel.FILE}),
        ({"signal.kafka.topic": "t", "signal.kafka.bootstrap.servers": "b:1"}, {Channel.KAFKA}),
        ({"signal.enabled.channels": "source, jmx"}, {Channel.SOURCE}),
        ({"signal.enabled.channels": "file", "signal.data.collection": "public.s"}, {Channel.FILE}),
    ],
)
def test_signals_come_from_the_channels_named_or_else_from_those_with_settings(
    changes: dict[str, str], expected: set[Channel]
):
    assert expected == parse(LEAST | changes).signals.channels


def test_the_signal_table_is_a_collection():
    assert (
        CollectionId(("a.b", 'c"d'))
        == parse(LEAST | {"signal.data.collection": '"a.b"."c""d"'}).signals.collection
    )


@pytest.mark.parametrize(
    ("capture", "captured"),
    [
        (CaptureSettings(), {"public.a", "public.b", "other.a"}),
        (CaptureSettings(include_schemas=("PUBLIC",)), {"public.a", "public.b"}),
        (CaptureSettings(exclude_schemas=("pub",)), {"public.a", "public.b", "other.a"}),
        (CaptureSettings(exclude_schemas=("pub.*",)), {"other.a"}),
        (CaptureSettings(include_tables=(r".*\.a",)), {"public.a", "other.a"}),
        (CaptureSettings(include_schemas=("public",), exclude_tables=("public.a",)), {"public.b"}),
        (CaptureSettings(include_tables=("a",)), set()),
    ],
)
def test_lists_capture_whole_names_in_any_case(capture: CaptureSettings, captured: set[str]):
    names = {"public.a", "public.b", "other.a"}

    assert captured == {name for name in names if capture.captures(*name.split("."))}


@pytest.mark.parametrize(
    ("changes", "watermarking"),
    [
        ({"incremental.snapshot.watermarking.strategy": "INSERT_DELETE"}, Watermarking.INSERT_DELETE),
        (
            {"incremental.snapshot.watermarking.strategy": "insert_insert", "read.only": "true"},
            Watermarking.VISIBILITY,
        ),
    ],
)
def test_watermarks_are_chosen_by_strategy_unless_read_only(
    changes: dict[str, str], watermarking: Watermarking
):
    settings = parse(LEAST | changes | {"signal.data.collection": "public.s"})

    assert watermarking is settings.snapshot.watermarking


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("database.port", "x", "'database.port' is 'x'; it must be a whole number from 1 to 65535"),
        ("database.port", "0", "it must be a whole number from 1 to 65535"),
        ("database.hostname", "a,b", "it must be a host name"),
        (
            "database.sslmode",
            "on",
            "it must be one of disable, allow, prefer, require, verify-ca, verify-full",
        ),
        ("slot.name", "Bad-Name", "it must be 1 to 63 lower-case letters, digits and underscores"),
        ("topic.prefix", "a b", "it must be letters, digits, hyphens, dots and underscores"),
        ("tombstones.on.delete", "yes", "it must be true or false"),
        ("decimal.handling.mode", "exact", "it must be one of precise, double, string"),
        ("skipped.operations", "c,none", "it must be a list of c, u, d, t, r, or none alone"),
        ("table.include.list", "a,(", "it must be an expression that does not compile"),
        ("message.key.columns", "public.a", "it must be table:column,column pairs separated by semicolons"),
        ("message.key.columns", "public.a.*", "it must be table:column,column pairs"),
        ("message.key.columns", "a.b:c;a.c:d,i[d", "'a.c:i[d': an expression that does not compile"),
        ("slot.stream.params", "proto_version=2", "without proto_version"),
        ("column.truncate.to.x.chars", "a", "the length 'x' must be a whole number"),
        ("column.mask.hash.X.with.salt.s", "a", "no hash 'X'; known: MD5"),
        ("signal.data.collection", "a.b.c", "it must be schema.table"),
        ("signal.enabled.channels", "smoke", "it must be a list of source, kafka, file, jmx"),
        ("tidemark.sink", "kafka", "missing 'producer.bootstrap.servers'"),
        ("tidemark.window.max.bytes", "12", "it must be 0, or a number of bytes"),
        ("tidemark.window.seconds", "nan", "it must be a number from 0.05 to 3600"),
        ("plugin.name", "decoderbufs", "it must be 'pgoutput'; no other plug-in is supported"),
        ("unavailable.value.placeholder", "hex:zz", "hexadecimal digits"),
        ("unavailable.value.placeholder", "hex:abc", "two hexadecimal digits for each byte"),
        ("database.user", "a\0b", "it must be text without NUL characters"),
        ("snapshot.mode", "custom", "missing 'snapshot.custom.class'"),
        ("snapshot.mode", "configuration_based", "it must be one of initial, always"),
        ("snapshot.max.threads", "-1", "it must be a whole number from 0"),
        ("tidemark.snapshot.restart", "again", "it must be one of resume, redo"),
        ("snapshot.mode", "sometimes", "it must be one of initial, always"),
        ("transforms", "unwrap", "'transforms' can't be 'unwrap': single message transforms are not run"),
        ("predicates", "p", "'predicates' can't be 'p'"),
        ("key.converter", "io.confluent.connect.avro.AvroConverter", "'key.converter' can't be"),
        ("header.converter", "org.apache.kafka.connect.storage.StringConverter", "it must be one of org"),
        ("header.converter.decimal.format", "NUMERIC", "decimals in headers are written as BASE64"),
        ("topic.naming.strategy", "com.example.Mine", "'topic.naming.strategy' can't be"),
        ("value.converter.decimal.format", "NUMERIC", "decimals are written as BASE64"),
        ("flush.lsn.source", "false", "not supported yet; leave it at 'true'"),
        ("database.server.name", "x", "is the name that older versions gave to 'topic.prefix'"),
        ("table.whitelist", "x", "is the name that older versions gave to 'table.include.list'"),
        (
            "connector.class",
            "io.debezium.connector.mysql.MySqlConnector",
            "it must be 'io.debezium.connector.p",
        ),
        ("tabel.include.list", "x", "no property 'tabel.include.list'; did you mean 'table.include.list'?"),
        ("table_include_list", "x", "no property 'table_include_list'; did you mean 'table.include.list'?"),
        ("database.hostnmae", "x", "no property 'database.hostnmae'; did you mean 'database.hostname'?"),
        ("tidemark.span.rows", "1", "did you mean 'tidemark.span.max.rows'?"),
        ("gibberish", "x", "no property 'gibberish'"),
        ("incremental.snapshot.watermarking.strategy", "insert_insert", "needs 'signal.data.collection'"),
        ("signal.kafka.topic", "t", "missing 'signal.kafka.bootstrap.servers'"),
        ("snapshot.select.statement.overrides", "a.b", "missing 'snapshot.select.statement.overrides.a.b'"),
    ],
)
def test_a_value_that_can_not_be_used_gives_one_problem(name: str, value: str, problem: str):
    found = problems_of(LEAST, {name: value})

    assert len(found) == 1
    assert problem in found[0]


@pytest.mark.parametrize(
    "name", [name for name in LEAST if name not in {"database.password", "snapshot.mode"}]
)
def test_what_is_missing_is_named(name: str):
    (found,) = problems_of(LEAST, {name: None})

    assert found.startswith(f"missing {name!r}: ")


def test_the_snapshot_that_debezium_takes_by_default_is_taken():
    assert (
        parse({name: value for name, value in LEAST.items() if name != "snapshot.mode"}).snapshot.mode
        == "initial"
    )


def test_an_old_mode_is_taken_with_a_warning():
    settings = parse(LEAST | {"snapshot.mode": "exported"})

    assert [line for line in settings.warnings if "'exported' is deprecated" in line]


def test_what_shapes_an_initial_snapshot_is_read():
    settings = parse(
        LEAST
        | {
            "snapshot.mode": "custom",
            "snapshot.custom.class": "package.module:Mine",
            "snapshot.include.collection.list": "a.b,c.*",
            "snapshot.select.statement.overrides": "a.b",
            "snapshot.select.statement.overrides.a.b": "SELECT * FROM a.b WHERE c > 1",
            "snapshot.delay.ms": "5",
            "snapshot.lock.timeout.ms": "6",
            "snapshot.max.threads": "7",
            "tidemark.snapshot.restart": "redo",
        }
    ).snapshot

    assert (settings.mode, settings.custom_name, settings.restart) == (
        "custom",
        "package.module:Mine",
        "redo",
    )
    assert (settings.delay_ms, settings.lock_timeout_ms, settings.max_threads) == (5, 6, 7)
    assert settings.include_tables == ("a.b", "c.*")
    assert settings.select_overrides == {"a.b": "SELECT * FROM a.b WHERE c > 1"}


def test_a_key_may_be_made_of_all_columns_that_an_expression_matches():
    settings = parse(LEAST | {"message.key.columns": "public.a:*;public.b:.*,i[d]"})

    assert settings.events.message_keys == ("public.a.*", "public.b..*", "public.b.i[d]")


SELECTS = "snapshot.select.statement.overrides"


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("public.orders", "public.orders"),
        ('"public"."My.Table"', "public.My.Table"),
        ('public."say ""hi"""', 'public.say "hi"'),
        ("public.[x]", "public.[x]"),
        ('public.my"table', 'public.my"table'),
    ],
)
def test_tables_with_a_select_are_named_with_quotes_or_without(name: str, key: str):
    settings = parse(LEAST | {SELECTS: name, f"{SELECTS}.{name}": "SELECT 1"})

    assert settings.snapshot.select_overrides == {key: "SELECT 1"}


def test_a_listed_table_with_an_empty_select_is_refused():
    found = problems_of(LEAST, {SELECTS: "public.orders", f"{SELECTS}.public.orders": " "})

    assert found == (f"'{SELECTS}.public.orders' is empty: give it a text, or take the name off '{SELECTS}'",)


def test_a_select_for_a_table_that_is_not_listed_gives_a_warning():
    settings = parse(LEAST | {SELECTS: "a.b", f"{SELECTS}.a.b": "SELECT 1", f"{SELECTS}.a.c": "SELECT 2"})

    assert f"'{SELECTS}.a.c' has no effect: '{SELECTS}' does not name it" in settings.warnings
    assert settings.snapshot.select_overrides == {"a.b": "SELECT 1"}


def test_no_data_is_another_name_of_never():
    assert SnapshotMode.NO_DATA is parse(LEAST | {"snapshot.mode": "no_data"}).snapshot.mode


@pytest.mark.parametrize("kind", ["schema", "table", "column", "message.prefix"])
def test_lists_that_include_and_exclude_contradict_each_other(kind: str):
    (found,) = problems_of(LEAST, {f"{kind}.include.list": "a", f"{kind}.exclude.list": "b"})

    assert "exclude each other" in found


def test_an_old_name_does_not_also_count_as_missing():
    (found,) = problems_of(LEAST, {"topic.prefix": None, "database.server.name": "x"})

    assert "'topic.prefix'" in found


def test_all_problems_are_reported_at_once():
    found = problems_of(
        LEAST,
        {
            "database.hostname": None,
            "database.port": "x",
            "transforms": "a",
            "nonsense.name": "1",
            "topic.prefix": "",
        },
    )

    assert len(found) == 5


def test_what_belongs_to_a_refused_converter_is_not_reported_again():
    assert len(problems_of(LEAST, {"converters": "isbn", "isbn.type": "x", "isbn.schema.name": "y"})) == 1


def test_everything_without_effect_is_named_in_one_warning():
    (warning,) = parse(
        LEAST
        | {
            "database.sslmode": "disable",
            "tasks.max": "1",
            "max.queue.size": "8192",
            "snapshot.delay.ms": "0",  # the default asks for nothing
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "schema.history.internal.kafka.topic": "t",
            "transforms.unwrap.type": "x",
        }
    ).warnings

    assert warning.startswith("without effect here: tasks.max (one job is one task), max.queue.size (")
    assert "schema.history.internal.kafka.topic" in warning
    assert "transforms.unwrap.type" in warning
    assert "snapshot.delay.ms" not in warning


@pytest.mark.parametrize("sink", ["console", "null"])
def test_a_sink_that_keeps_nothing_needs_no_directories(sink: str):
    bare = {name: value for name, value in LEAST.items() if not name.startswith("tidemark.")}

    settings = parse(bare | {"tidemark.sink": sink, "database.sslmode": "disable"})

    assert settings.job.checkpoint is None
    assert len(settings.warnings) == 1


def test_secrets_are_in_no_repr_and_in_no_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TM_SECRET", "s3cr3t")
    monkeypatch.setenv("TM_PORT", "s3cr3t")
    lines = [f"{name}={value}" for name, value in LEAST.items() if "password" not in name]
    good = tmp_path / "good.properties"
    good.write_text("\n".join([*lines, "database.password=${env:TM_SECRET}", "database.sslpassword=s3cr3t"]))
    bad = tmp_path / "bad.properties"
    bad.write_text(
        "\n".join([*lines, "database.port=${env:TM_PORT}", "table.include.list=(${env:TM_SECRET}"])
    )

    settings = read(good)
    with pytest.raises(ConfigError) as caught:
        read(bad)

    assert settings.source_as(PostgresSettings).password == "s3cr3t"
    assert "s3cr3t" not in repr(settings)
    assert "s3cr3t" not in repr(explain(load(good)))
    assert len(caught.value.problems) == 2
    assert "s3cr3t" not in str(caught.value)


def test_a_salt_is_masked_in_the_name_that_holds_it():
    name = "column.mask.hash.SHA-256.with.salt.CzQMA0cB5K"

    (explained,) = explain({name: "a.b.c"})

    assert explained.name == "column.mask.hash.SHA-256.with.salt.(hidden)"
    assert "CzQMA" not in " ".join(problems_of(LEAST, {name: "("}))


def test_faults_of_the_file_and_of_its_values_come_together(tmp_path: Path):
    path = tmp_path / "c.properties"
    text = "".join(f"{name}={value}\n" for name, value in LEAST.items() if name != "snapshot.mode")
    path.write_text(text + "database.port=1\ndatabase.port=x\nsnapshot.mode=${env:TM_NONE}\n")

    with pytest.raises(ConfigError) as caught:
        read(path)

    assert [problem.split(" ")[0] for problem in caught.value.problems] == [
        "'database.port'",
        "'snapshot.mode':",
        "'database.port'",
    ]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.parent.name)
def test_recorded_cases_are_configurations(path: Path):
    given = load(path) | {
        name: value for name, value in LEAST.items() if name.startswith(("database", "tide"))
    }
    given["database.dbname"] = "inventory"

    assert parse(given).source_as(PostgresSettings).slot == "debezium"


def test_there_are_recorded_cases():
    assert len(GOLDEN) >= 100


@pytest.mark.parametrize(
    ("given", "kept"),
    [("", set()), ("names, defaults", {"names", "defaults"}), ("all", set(Fault))],
)
def test_faults_of_debezium_are_kept_one_by_one_or_all(given, kept):
    assert parse({**LEAST, "tidemark.keep.debezium.faults": given}).events.kept_faults == kept


def test_an_unknown_fault_is_named():
    (problem,) = problems_of(LEAST, {"tidemark.keep.debezium.faults": "name"})

    assert "names, defaults, texts, intervals, arrays, scales, or all alone" in problem


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"tidemark.checkpoint": "/e"}, "'tidemark.checkpoint' and 'tidemark.sink.files.dir' are the same"),
        ({"tidemark.checkpoint": "file:///e/."}, "are the same directory"),
        ({"tidemark.staging.dir": "/"}, "'tidemark.staging.dir' holds 'tidemark.checkpoint'"),
        ({"tidemark.staging.dir": "/c"}, "'tidemark.staging.dir' holds 'tidemark.checkpoint'"),
        ({"tidemark.staging.dir": "/e"}, "'tidemark.staging.dir' holds 'tidemark.sink.files.dir'"),
        ({"tidemark.staging.dir": "/e/a/../b"}, "'tidemark.staging.dir' lies in 'tidemark.sink.files.dir'"),
    ],
)
def test_directories_that_overlap_are_refused(given, expected):
    assert expected in "\n".join(problems_of(LEAST, given))


@pytest.mark.parametrize("staging", ["/c/staging", "/cc", "/s", "/e2"])
def test_directories_apart_are_taken(staging):
    assert parse({**LEAST, "tidemark.staging.dir": staging}).job.staging == staging


@pytest.mark.parametrize(("given", "mode"), [("", None), ("640", 0o640), ("0644", 0o644), ("600", 0o600)])
def test_the_mode_of_committed_files_is_octal(given, mode):
    assert parse({**LEAST, "tidemark.sink.files.mode": given}).sink_as(FilesSettings).mode == mode


@pytest.mark.parametrize("given", ["0440", "888", "64", "rw", "07777"])
def test_a_mode_that_locks_the_job_out_is_refused(given):
    assert "octal digits" in problems_of(LEAST, {"tidemark.sink.files.mode": given})[0]


@pytest.mark.parametrize(
    ("more", "warned"),
    [
        ({"database.hostname": "db.example"}, True),
        ({"database.hostname": "db.example", "database.sslmode": "disable"}, False),
        ({"database.hostname": "127.0.0.1"}, False),
    ],
)
def test_passwords_in_the_clear_are_warned_about_unless_they_are_asked_for(more, warned):
    assert any("travel in the clear" in line for line in parse(LEAST | more).warnings) is warned
