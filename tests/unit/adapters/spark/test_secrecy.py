"""Which of Spark's settings stay out of its command line, and what is on where it speaks over a network."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from adapters.spark.secrecy import guards, launched_with, warn_of_open
from engine.config.text.references import Hidden
from engine.errors import ConfigError

if TYPE_CHECKING:
    from pyspark import SparkContext

GUARDS = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}
SECRET = {"spark.authenticate.secret": "x"}


def test_secrets_are_not_what_the_jvm_is_launched_with():
    given = {
        "spark.hadoop.fs.s3a.secret.key": "x",
        "spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net": "x",
        "spark.hadoop.a.endpoint": "https://u:p@h",
        "spark.authenticate.secret": "x",
        "spark.from.a.reference": Hidden("x", "${env:X}"),
        "spark.ui.enabled": "false",
        "spark.jars.packages": "a:b:1",
        "spark.driver.memory": Hidden("2g", "${env:MEMORY}"),
    }

    assert launched_with(given) == {
        name: given[name] for name in ("spark.ui.enabled", "spark.jars.packages", "spark.driver.memory")
    }


def test_a_secret_that_serves_only_at_the_launch_is_told_of(caplog: pytest.LogCaptureFixture):
    given = {"spark.driver.extraJavaOptions": "-Dmy.password=x", "spark.driver.memory": Hidden("2g")}

    assert launched_with(given) == given
    assert "'spark.driver.extraJavaOptions'" in caplog.text
    assert "spark.driver.memory" not in caplog.text


@pytest.mark.parametrize(
    ("master", "given", "expected"),
    [
        ("local[2]", {}, {}),
        ("local", {}, {}),
        ("yarn", {}, GUARDS),
        ("k8s://https://h", {}, GUARDS),
        ("spark://h:7077", SECRET, GUARDS),
        ("spark://h:7077", {"spark.authenticate.secret.file": "/f"}, GUARDS),
        ("spark://h:7077", {"spark.authenticate": "false"}, {"spark.io.encryption.enabled": "true"}),
        ("yarn", {"spark.network.crypto.enabled": "false"}, {**GUARDS, "spark.network.crypto.enabled": None}),
        ("yarn", {"spark.io.encryption.enabled": "false"}, {**GUARDS, "spark.io.encryption.enabled": None}),
    ],
)
def test_what_is_on_unless_it_is_switched_off_by_name(
    master: str, given: dict[str, str], expected: dict[str, str | None]
):
    assert guards(master, given) == {name: value for name, value in expected.items() if value}


def test_a_cluster_on_this_machine_gets_a_secret_of_its_own():
    first, second = (guards("local-cluster[1,1,1024]", {}) for _ in range(2))

    assert len(first.pop("spark.authenticate.secret")) == 64
    assert first == GUARDS
    assert guards("local-cluster[1,1,1024]", {}) != second


def test_a_master_without_a_secret_to_authenticate_by_is_refused():
    with pytest.raises(ConfigError) as caught:
        guards("spark://h:7077", {})

    assert "missing 'tidemark.spark.conf.spark.authenticate.secret'" in str(caught.value)
    assert "tidemark.spark.conf.spark.authenticate=false" in str(caught.value)


@pytest.mark.parametrize(
    ("master", "given", "warned"),
    [
        ("yarn", {}, True),
        ("yarn", GUARDS, False),
        ("spark://h:7077", {**GUARDS, "spark.network.crypto.enabled": "false"}, True),
        ("local[*]", {}, False),
    ],
)
def test_a_session_of_somebody_else_s_that_is_open_is_told_of(
    caplog: pytest.LogCaptureFixture, master: str, given: dict[str, str], *, warned: bool
):
    conf = SimpleNamespace(get=given.get)
    warn_of_open(cast("SparkContext", SimpleNamespace(master=master, getConf=lambda: conf)))

    assert ("speak to each other unprotected" in caplog.text) == warned
