"""What ships for Kubernetes: documented kinds and fields, and parts that agree with each other."""

from __future__ import annotations

import copy
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from adapters.postgres.settings import PostgresSettings
from engine.config import read
from tests.unit.adapters.kubernetes.kinds import (
    ConfigMap,
    Deployment,
    Kind,
    PersistentVolumeClaim,
    Pod,
    Role,
    ServiceAccount,
    SparkApplication,
    accepted,
)

ROOT = Path(__file__).parents[4]
SHIPPED = ROOT / "adapters/kubernetes"
FILES = sorted(path.name for path in SHIPPED.glob("*.yaml"))
ENVIRONMENT = {
    "PGPASSWORD": "secret",
    "TIDEMARK_TOKEN": "a-token-that-nobody-knows",
    "POD_IP": "10.0.0.7",
    "POD_NAME": "tidemark-1",
    "POD_NAMESPACE": "shop",
    "IMAGE": "tidemark:1",
}


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((SHIPPED / name).read_text()))


def kinds(name: str) -> dict[type, Any]:
    """The manifests of a file, by their kinds."""
    return {type(kind): kind for kind in map(accepted, documents(name))}


@pytest.mark.parametrize("name", FILES)
def test_every_manifest_has_documented_fields_alone(name):
    assert [accepted(document) for document in documents(name)]


def test_a_field_that_nobody_knows_is_refused():
    (document,) = (document for document in documents("deployment.yaml") if document["kind"] == "Deployment")
    wrong = copy.deepcopy(document)
    wrong["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}

    with pytest.raises(msgspec.ValidationError, match="readynessProbe"):
        accepted(wrong)


def test_one_pod_at_a_time_streams():
    spec = kinds("deployment.yaml")[Deployment].spec

    assert spec.replicas == 1
    assert spec.strategy.type == "Recreate"
    assert spec.selector.match_labels == spec.template.metadata.labels


def test_what_a_pod_mounts_is_there():
    deployed, applied = kinds("deployment.yaml"), kinds("spark-application.yaml")
    pod = deployed[Deployment].spec.template.spec
    application = applied[SparkApplication].spec

    (container,) = pod.containers
    assert {mount.name for mount in container.volume_mounts} == {volume.name for volume in pod.volumes}
    maps = {volume.config_map.name for volume in pod.volumes if volume.config_map}
    assert maps == {deployed[ConfigMap].metadata.name}
    claims = {
        volume.persistent_volume_claim.claim_name for volume in pod.volumes if volume.persistent_volume_claim
    }
    assert claims == {deployed[PersistentVolumeClaim].metadata.name}
    assert [config_map.name for config_map in application.driver.config_maps] == [
        applied[ConfigMap].metadata.name
    ]
    mounted = {mount.name for mount in application.driver.volume_mounts}
    assert mounted == {volume.name for volume in application.volumes}


def test_the_account_is_the_one_that_may_start_executors():
    account = kinds("account.yaml")
    name = account[ServiceAccount].metadata.name

    assert kinds("deployment.yaml")[Deployment].spec.template.spec.service_account_name == name
    assert kinds("spark-application.yaml")[SparkApplication].spec.driver.service_account == name
    (rule,) = account[Role].rules
    assert {"pods", "configmaps"} <= {*rule.resources}
    assert {"create", "delete", "deletecollection", "watch"} <= {*rule.verbs}


def settings_of(config: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    assert isinstance(config, ConfigMap)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "tidemark.properties"
    path.write_text(config.data["tidemark.properties"])
    return read(path)


def test_the_deployments_properties_make_this_pod_the_driver(tmp_path, monkeypatch):
    deployed = kinds("deployment.yaml")
    settings = settings_of(deployed[ConfigMap], tmp_path, monkeypatch)
    (container,) = deployed[Deployment].spec.template.spec.containers

    job = settings.job
    assert isinstance(settings.source, PostgresSettings)
    assert settings.sink.kind == "kafka"
    assert job.spark_master == "k8s://https://kubernetes.default.svc"
    assert job.spark_archive == "none"
    assert job.spark_conf["spark.kubernetes.driver.pod.name"] == "tidemark-1"
    assert job.spark_conf["spark.driver.host"] == "10.0.0.7"
    assert job.spark_conf["spark.kubernetes.container.image"] == "tidemark:1"
    given = {variable.name for variable in container.env} | {"PGPASSWORD", "TIDEMARK_TOKEN"}
    assert given == {*ENVIRONMENT}
    assert settings.http.port == container.ports[0].container_port
    template = job.spark_conf["spark.kubernetes.executor.podTemplateFile"]
    assert isinstance(accepted(yaml.safe_load(deployed[ConfigMap].data[Path(template).name])), Pod)


def test_the_application_leaves_the_master_to_the_operator(tmp_path, monkeypatch):
    applied = kinds("spark-application.yaml")
    settings = settings_of(applied[ConfigMap], tmp_path, monkeypatch)
    spec = applied[SparkApplication].spec

    assert settings.job.spark_master is None
    assert settings.job.spark_archive == "none"
    assert spec.spark_version == metadata.version("pyspark")
    assert spec.arguments == ["run", "/etc/tidemark/tidemark.properties"]


def test_the_application_starts_a_file_of_the_image():
    spec = kinds("spark-application.yaml")[SparkApplication].spec
    path = spec.main_application_file.removeprefix("local:///opt/tidemark/")
    copied = [
        line.split()[1] for line in (ROOT / "Dockerfile").read_text().splitlines() if "COPY engine" in line
    ]

    assert copied == ["engine"]
    assert (ROOT / path).is_file()


def test_containers_run_as_the_user_of_the_image():
    user = next(
        int(line.split()[1])
        for line in (ROOT / "Dockerfile").read_text().splitlines()
        if line.startswith("USER")
    )
    application = kinds("spark-application.yaml")[SparkApplication].spec
    pod = kinds("deployment.yaml")[Deployment].spec.template.spec

    assert pod.security_context.run_as_user == user
    assert application.driver.security_context.run_as_user == user
    assert application.executor.security_context.run_as_user == user
