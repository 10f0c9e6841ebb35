"""The properties of MongoDB's connector."""

from __future__ import annotations

import pytest

from adapters.mongodb.settings import MongoSettings
from engine.config import parse
from engine.errors import ConfigError

LEAST = {
    "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
    "mongodb.connection.string": "mongodb://localhost/?replicaSet=rs0",
    "topic.prefix": "tm",
    "tidemark.sink": "console",
}
OVERRIDES = "snapshot.collection.filter.overrides"


def refused(**more: str) -> str:
    with pytest.raises(ConfigError) as told:
        parse({**LEAST, **more})
    return str(told.value)


def test_an_empty_filter_is_refused_and_one_that_is_not_listed_gives_a_warning():
    unlisted = parse({**LEAST, f"{OVERRIDES}.shop.orders": "{}"})

    assert f"'{OVERRIDES}.shop.orders' is empty" in refused(
        **{OVERRIDES: "shop.orders", f"{OVERRIDES}.shop.orders": ""}
    )
    assert f"'{OVERRIDES}.shop.orders' has no effect: '{OVERRIDES}' does not name it" in unlisted.warnings


def test_the_filters_of_an_initial_snapshot_are_read():
    settings = parse(
        {
            **LEAST,
            OVERRIDES: "shop.t, shop.u.v",
            f"{OVERRIDES}.shop.t": '{"n": 1}',
            f"{OVERRIDES}.shop.u.v": "{}",
        }
    )

    assert settings.snapshot.filters == {"shop.t": '{"n": 1}', "shop.u.v": "{}"}


def test_a_filter_that_is_named_and_not_given_is_missed():
    assert f"missing '{OVERRIDES}.shop.t'" in refused(**{OVERRIDES: "shop.t"})


@pytest.mark.parametrize("text", ["n > 1", "[]", "{n: 1}"])
def test_a_filter_must_be_a_document(text: str):
    assert "filter document in JSON" in refused(**{OVERRIDES: "shop.t", f"{OVERRIDES}.shop.t": text})


def test_match_stages_of_a_pipeline_are_taken():
    stages = '[{"$match": {"operationType": "insert"}}, {"$match": {"ns.coll": "t"}}]'
    settings = parse({**LEAST, "cursor.pipeline": stages, "cursor.pipeline.order": "user_first"})

    assert settings.source_as(MongoSettings).matches == ('{"operationType":"insert"}', '{"ns.coll":"t"}')


@pytest.mark.parametrize("stages", ['[{"$project": {"fullDocument": 0}}]', '[{"$match": 1}]', "[1]"])
def test_other_stages_are_refused_with_what_to_use_instead(stages: str):
    assert "use field.exclude.list" in refused(**{"cursor.pipeline": stages})


@pytest.mark.parametrize("stages", ["$match", '{"$match": {}}'])
def test_a_pipeline_must_be_an_array(stages: str):
    assert "'cursor.pipeline'" in refused(**{"cursor.pipeline": stages})


def test_key_stores_are_refused_with_what_to_use_instead():
    told = refused(**{"mongodb.ssl.keystore": "/k.jks", "mongodb.ssl.truststore": "/t.jks"})

    assert "tlsCertificateKeyFile" in told
    assert "tlsCAFile" in told


def test_a_deployment_must_be_named():
    told = refused(**{"mongodb.connection.string": ""})

    assert "missing 'mongodb.connection.string'" in told
