"""What `check` and messages show of secrets: nothing, wherever in a value they stand."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from engine.config.text.hidden import hidden_in, is_secret, shown_value, without_secrets
from engine.config.text.mask import MASK
from engine.config.text.references import Hidden, resolve

SECRETS = ("pw", "s3cr3t", "p@ss w/rd?", "hush,x")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("mongodb.connection.string", "mongodb://u:{}@h:27017/?replicaSet=rs", id="a password"),
        pytest.param("mongodb.hosts", "rs0/u:{}@h1:27017,h2:27017", id="hosts without a scheme"),
        pytest.param(
            "mongodb.connection.string",
            "mongodb://h/?tlsCertificateKeyFilePassword={}&tls=true",
            id="a key's",
        ),
        pytest.param(
            "mongodb.connection.string",
            "mongodb://h/?authMechanismProperties=AWS_SESSION_TOKEN:{},X:y",
            id="a session token",
        ),
        pytest.param("tidemark.staging.dir", "https://a.blob/x?sv=2&sig={}&se=3", id="a signature"),
        pytest.param("tidemark.checkpoint", "s3a://key:{}@bucket/state", id="a bucket's"),
        pytest.param("some.jdbc.url", "jdbc:sqlserver://h;user=u;password={};encrypt=true", id="JDBC"),
        pytest.param("database.initial.statements", "SET my.word = '{}'; SET x = 'y'", id="a statement"),
    ],
)
@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_inside_of_a_value_is_not_shown(name: str, value: str, secret: str):
    shown = shown_value(name, value.format(secret))

    assert secret not in shown
    assert MASK in shown


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        pytest.param("some.url", "jdbc:postgresql://h/d?password={}&x=1", "a,b;c", id="query"),
        pytest.param("some.url", "jdbc:postgresql://h/d?x=1&password={}", "{a}b", id="braces in a query"),
        pytest.param("some.url", "jdbc:sqlserver://h;password={};x=1", "a,b&c", id="properties"),
        pytest.param("some.url", "jdbc:sqlserver://h;password={};x=1", "{a;b,c}}d&e}", id="braces"),
        pytest.param("some.url", "jdbc:sqlserver://h;password={};x=1", "{a", id="one brace"),
        pytest.param("some.options", "user=u,password={}, x=1", "a,b", id="options"),
        pytest.param("some.options", "user=u,password={},x=1", "'a'',b'", id="quoted"),
    ],
)
def test_a_secret_is_hidden_to_its_end_and_no_further(name: str, value: str, secret: str):
    assert shown_value(name, value.replace("{}", secret)) == value.replace("{}", MASK)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mongodb.connection.string", "mongodb://h1:27017,h2:27017/?replicaSet=rs&tls=true"),
        ("mongodb.connection.string", "mongodb://user@h/"),
        ("database.hostname", "db.example.org"),
        ("tidemark.checkpoint", "s3a://bucket/state"),
        ("message.key.columns", "a.b:c@d"),
        ("signal.kafka.bootstrap.servers", "a:9092,b:9092"),
    ],
)
def test_what_holds_no_secret_is_shown_as_it_is(name: str, value: str):
    assert shown_value(name, value) == value


@pytest.mark.parametrize(
    "name",
    [
        "tidemark.spark.conf.spark.hadoop.fs.s3a.secret.key",
        "tidemark.spark.conf.spark.hadoop.fs.azure.account.key.x.dfs.core.windows.net",
        "tidemark.spark.conf.spark.hadoop.fs.azure.sas.container.account",
        "producer.sasl.jaas.config",
        "signal.consumer.ssl.keystore.key.password",
        "producer.basic.auth.user.info",
        "producer.ssl.key.pem",
        "tidemark.spark.conf.spark.hadoop.fs.s3a.encryption.key",
        "tidemark.spark.conf.spark.sql.catalog.c.header.Authorization",
        "tidemark.spark.conf.spark.sql.catalog.c.oauth2.pwd",
        "tidemark.spark.conf.spark.ssl.keyPwd",
    ],
)
def test_a_secret_by_its_name_is_not_shown_at_all(name: str):
    assert is_secret(name, "x")
    assert shown_value(name, "x") == MASK


def test_a_message_about_an_address_does_not_repeat_its_secrets():
    uri = "mongodb://u:p%40ss@h/?tlsCertificateKeyFilePassword=hush"

    message = hidden_in("bad user info 'u:p@ss' (u:p%40ss), and 'hush' opens no key", uri)

    assert message == f"bad user info 'u:{MASK}' (u:{MASK}), and '{MASK}' opens no key"


@pytest.mark.parametrize("text", ["", "://", "a://@", "@" * 5000, "password=" * 5000, "a://" + ":@" * 5000])
def test_any_text_is_looked_through(text: str):
    assert isinstance(without_secrets(text, address=True), str)


class TestPickled:
    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        self.file = tmp_path / "credential"
        self.file.write_text("first\n")

    def hidden(self) -> Hidden:
        found, problems = resolve({"p": f" ${{dir:{self.file.parent}:{self.file.name}}}"}, {})
        assert not problems
        value = found["p"].strip()
        assert isinstance(value, Hidden)
        return value

    def test_a_task_carries_where_a_secret_comes_from_and_no_more(self):
        value = self.hidden()
        pickled = pickle.dumps({"password": value})
        self.file.write_text("second\n")

        assert b"first" not in pickled
        assert pickle.loads(pickled) == {"password": "second"}  # noqa: S301

    def test_elsewhere_it_has_what_the_driver_knew_last(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(Hidden, "carried", True)
        value = self.hidden()
        self.file.write_text("second\n")
        pickled = pickle.dumps(value)
        self.file.unlink()  # as on a machine that does not have it

        assert value == "first"
        found = pickle.loads(pickled)  # noqa: S301
        assert found == "second"
        assert repr(found) == MASK

    def test_a_secret_from_nowhere_is_hidden_still(self):
        assert repr(pickle.loads(pickle.dumps(Hidden("x")))) == MASK  # noqa: S301
