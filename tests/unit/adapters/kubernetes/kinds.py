"""The documented fields of the kinds in our manifests, as far as these use them; any other is refused.

Sources: Kubernetes' API reference 1.37, and the Spark operator's API reference, v1beta2. `make manifests`
checks the kinds of Kubernetes by its published schemas.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Known(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A part of a manifest."""


class Metadata(Known):
    name: str
    labels: dict[str, str] = {}


class ServiceAccount(Known, tag_field="kind"):
    api_version: Literal["v1"]
    metadata: Metadata


class Rule(Known):
    api_groups: list[str]
    resources: list[str]
    verbs: list[Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]]


class Role(Known, tag_field="kind"):
    api_version: Literal["rbac.authorization.k8s.io/v1"]
    metadata: Metadata
    rules: list[Rule]


class RoleReference(Known):
    api_group: Literal["rbac.authorization.k8s.io"]
    kind: Literal["Role"]
    name: str


class Subject(Known):
    kind: Literal["ServiceAccount"]
    name: str


class RoleBinding(Known, tag_field="kind"):
    api_version: Literal["rbac.authorization.k8s.io/v1"]
    metadata: Metadata
    role_ref: RoleReference
    subjects: list[Subject]


class ConfigMap(Known, tag_field="kind"):
    api_version: Literal["v1"]
    metadata: Metadata
    data: dict[str, str]


class Requests(Known):
    requests: dict[str, str]
    limits: dict[str, str] = {}


class ClaimSpec(Known):
    access_modes: list[Literal["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"]]
    resources: Requests


class PersistentVolumeClaim(Known, tag_field="kind"):
    api_version: Literal["v1"]
    metadata: Metadata
    spec: ClaimSpec


class Seccomp(Known):
    type: Literal["RuntimeDefault"]


class Capabilities(Known):
    drop: list[str]


class ContainerSecurity(Known):
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    read_only_root_filesystem: bool | None = None
    allow_privilege_escalation: bool | None = None
    capabilities: Capabilities | None = None
    seccomp_profile: Seccomp | None = None


class PodSecurity(Known):
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    fs_group: int | None = None
    seccomp_profile: Seccomp | None = None


class FieldReference(Known):
    field_path: Literal["metadata.name", "metadata.namespace", "status.podIP"]


class ValueFrom(Known):
    field_ref: FieldReference


class Variable(Known):
    name: str
    value: str | None = None
    value_from: ValueFrom | None = None


class Named(Known):
    name: str


class VariablesFrom(Known):
    secret_ref: Named


class Port(Known):
    name: str
    container_port: int
    protocol: Literal["TCP"] | None = None


class HttpGet(Known):
    path: str
    port: str


class Probe(Known):
    http_get: HttpGet
    period_seconds: int
    initial_delay_seconds: int = 0
    failure_threshold: int = 3


class Mount(Known):
    name: str
    mount_path: str
    read_only: bool = False


class Container(Known):
    name: str
    image: str | None = None
    env_from: list[VariablesFrom] = []
    env: list[Variable] = []
    ports: list[Port] = []
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    resources: Requests | None = None
    security_context: ContainerSecurity | None = None
    volume_mounts: list[Mount] = []


class Claim(Known):
    claim_name: str


class Volume(Known):
    name: str
    config_map: Named | None = None
    persistent_volume_claim: Claim | None = None
    empty_dir: dict[str, Any] | None = None


class PodSpec(Known):
    containers: list[Container]
    service_account_name: str | None = None
    automount_service_account_token: bool | None = None
    share_process_namespace: bool | None = None
    termination_grace_period_seconds: int | None = None
    security_context: PodSecurity | None = None
    volumes: list[Volume] = []


class Pod(Known, tag_field="kind"):
    api_version: Literal["v1"]
    spec: PodSpec


class Labels(Known):
    labels: dict[str, str]


class PodTemplate(Known):
    metadata: Labels
    spec: PodSpec


class Selector(Known):
    match_labels: dict[str, str]


class Strategy(Known):
    type: Literal["Recreate", "RollingUpdate"]


class DeploymentSpec(Known):
    replicas: int
    strategy: Strategy
    selector: Selector
    template: PodTemplate


class Deployment(Known, tag_field="kind"):
    api_version: Literal["apps/v1"]
    metadata: Metadata
    spec: DeploymentSpec


class NamePath(Known):
    name: str
    path: str


class RestartPolicy(Known):
    type: Literal["Never", "Always", "OnFailure"]
    on_failure_retry_interval: int
    on_submission_failure_retry_interval: int


class SparkPod(Known):
    cores: int
    memory: str
    memory_overhead: str | None = None
    service_account: str | None = None
    instances: int | None = None
    pod_security_context: PodSecurity | None = None
    security_context: ContainerSecurity | None = None
    env_from: list[VariablesFrom] = []
    config_maps: list[NamePath] = []
    volume_mounts: list[Mount] = []
    ports: list[Port] = []


class SparkApplicationSpec(Known):
    type: Literal["Java", "Python", "Scala", "R"]
    python_version: Literal["2", "3"]
    mode: Literal["cluster", "client"]
    spark_version: str
    image: str
    main_application_file: str
    arguments: list[str]
    restart_policy: RestartPolicy
    spark_conf: dict[str, str]
    volumes: list[Volume]
    driver: SparkPod
    executor: SparkPod


class SparkApplication(Known, tag_field="kind"):
    api_version: Literal["sparkoperator.k8s.io/v1beta2"]
    metadata: Metadata
    spec: SparkApplicationSpec


Kind = (
    ServiceAccount
    | Role
    | RoleBinding
    | ConfigMap
    | PersistentVolumeClaim
    | Pod
    | Deployment
    | SparkApplication
)


def accepted(document: Any) -> Kind:
    """The document as its kind. Raises msgspec.ValidationError if a field is unknown or of another type."""
    found: Kind = msgspec.convert(document, Kind)
    return found
