"""What ships for Prometheus and Grafana holds together: metrics, dashboard, alerts and their runbook."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from adapters.http.metrics import MetricsPage
from engine.events.counts import EventCounts
from tests.job_bench import BOTH
from tests.unit.adapters.http.watched_job import WatchedJob

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[4]
SHIPPED = ROOT / "adapters/observability"
NAMED = re.compile(r"\b((?:tidemark|debezium|process)_\w+|up)\b(?:\{([^}]*)\})?")
ADDED = {"instance", "job"}
"""Labels that Prometheus adds itself."""


def expressions() -> Iterator[tuple[str, str]]:
    """Every query, with where it is."""
    board = json.loads((SHIPPED / "dashboard.json").read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield f"panel {panel['title']}", target["expr"]
    for variable in board["templating"]["list"]:
        yield f"variable {variable['name']}", variable["query"]["query"]
    for rule in rules():
        yield f"alert {rule['alert']}", rule["expr"]


def rules() -> list[dict[str, Any]]:
    content = yaml.safe_load((SHIPPED / "alerts.yml").read_text())
    return [rule for group in content["groups"] for rule in group["rules"]]


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The labels of every metric that a job has which has done something."""
    job = WatchedJob(tmp_path_factory.mktemp("job"), tidemark_http_port="0")
    bench = job.begin()
    bench.source.tells = {"counts": EventCounts(1, last_transaction=7)}
    bench.execute(BOTH)
    bench.turns(2)
    job.monitor.tally.failures["SourceError"] += 1
    found: dict[str, set[str]] = {"up": set()}
    for family in text_string_to_metric_families(MetricsPage(job.monitor).text().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.mark.parametrize(("place", "query"), [*expressions()])
def test_every_query_names_metrics_and_labels_that_exist(
    metrics: dict[str, set[str]], place: str, query: str
):
    named = NAMED.findall(query)

    assert named, place
    for name, selector in named:
        assert name in metrics, f"{place}: there is no metric {name}"
        labels = set(re.findall(r"(\w+)\s*=", selector))
        assert labels <= metrics[name] | ADDED, f"{place}: {name} has no label of {labels}"


def test_every_alert_is_in_the_runbook_with_its_meaning_and_what_to_do():
    runbook = (ROOT / "RUNBOOK.md").read_text()
    for rule in rules():
        anchor = rule["annotations"]["runbook"].removeprefix("RUNBOOK.md#")
        (line,) = [line for line in runbook.splitlines() if f'<a id="{anchor}"></a>`{rule["alert"]}`' in line]
        _alert, means, to_do = line.strip("| ").split(" | ")
        assert min(len(means), len(to_do)) > 40, rule["alert"]
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in {"critical", "warning"}

    told = re.findall(r"</a>`(\w+)`", runbook)
    assert told == [rule["alert"] for rule in rules()]


def test_what_must_be_alerted_on_is():
    queries = " ".join(rule["expr"] for rule in rules())

    for name in ("tidemark_lag_seconds", "tidemark_log_kept_bytes", "tidemark_rows_read_total", "up"):
        assert name in queries
    assert 'stage="failed"' in queries


def test_docker_compose_mounts_what_ships_where_it_is_looked_for():
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    files = {name: config["file"] for name, config in compose["configs"].items() if "file" in config}
    prometheus, grafana = (
        {config["source"]: config["target"] for config in compose["services"][name]["configs"]}
        for name in ("prometheus", "grafana")
    )
    scraped = yaml.safe_load((SHIPPED / "prometheus.yml").read_text())

    assert {Path(file).name for file in files.values()} == {path.name for path in SHIPPED.iterdir()}
    assert all((ROOT / file).is_file() for file in files.values())
    assert scraped["rule_files"] == [prometheus["alerts.yml"]]
    (job,) = scraped["scrape_configs"]
    assert job["authorization"]["credentials_file"] == prometheus["token"]
    targets = [
        *(target for static in job["static_configs"] for target in static["targets"]),
        *(f"{name}:{found['port']}" for found in job["dns_sd_configs"] for name in found["names"]),
    ]
    for target in targets:
        service, _, port = target.partition(":")
        (properties,) = [config["source"] for config in compose["services"][service]["configs"]]
        content = compose["configs"][properties]["content"]
        assert f"tidemark.http.port={port}\n" in content
        assert f"tidemark.http.hosts={service}\n" in content
    provider = yaml.safe_load((SHIPPED / "dashboards.yml").read_text())["providers"][0]
    assert grafana["dashboard.json"].startswith(provider["options"]["path"])
    source = yaml.safe_load((SHIPPED / "datasource.yml").read_text())["datasources"][0]
    board = json.loads((SHIPPED / "dashboard.json").read_text())
    assert {panel["datasource"]["uid"] for panel in board["panels"]} == {source["uid"]}
