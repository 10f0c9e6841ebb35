# Every target makes its own environment first; `make help` lists them.
# ARGS reaches the tool behind a target: make test ARGS="-k merge -x"

SHELL := /bin/sh
BIN := .venv/bin
STAMP := .venv/.ready
# Hundreds of processes start in the tests. Each would compile all that it imports.
BYTECODE := env -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX=$(CURDIR)/.cache/bytecode
PYTEST := $(BYTECODE) $(BIN)/python -m pytest
COMPILE := $(BIN)/python -m uv pip compile --universal --python-version 3.11 \
	--generate-hashes --no-header --no-annotate --no-emit-index-url
LOCK := $(COMPILE) pyproject.toml --all-extras --output-file requirements.lock
# What the image installs: a part of the same lock.
LOCK_IMAGE := $(COMPILE) pyproject.toml --extra mongodb --extra sqlserver --constraint requirements.lock \
	--output-file .ci/image.lock
LOCK_BUILD := echo 'setuptools>=77' | $(COMPILE) - --output-file .ci/build.lock
TOOL := $(BIN)/python -m uv tool run --from
PROCESSES := 3

.DEFAULT_GOAL := help
.PHONY: help setup check lint format unit test integration thorough class-archive test-cluster debezium-cases test-page test-sqlserver test-newest delta-table lake lake-killed verify-jdbc verify-lake verify-against jvm-ends jdbc-killed older-release manifests server-move recovery slot-failover import-offsets bench bench-peers floats consumers idle many-jobs torture demo demo-verify demo-kafka demo-lake demo-mongodb golden fuzz lock audit sbom base-digest clean simulate simulate-mutants prove

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-16s %s\n", $$1, $$2}'

setup: $(STAMP) ## make .venv with the locked dependencies, and make sure of Java 17 or later, libcurl and unixODBC
	@.ci/java
	@.ci/libraries

$(STAMP): requirements.lock pyproject.toml .ci/python
	@rm -f $@
	@python=$$(.ci/python) && { test -x $(BIN)/python || "$$python" -m venv --clear .venv; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

check: lint ## formatting, lint, types
	$(BIN)/mypy

lint: setup ## formatting and lint
	$(BIN)/ruff format --check
	$(BIN)/ruff check

format: setup ## put files into the form that check asks for
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

unit: setup ## the tests that need no server
	$(PYTEST) -m "not integration and not thorough" $(ARGS)

integration: class-archive ## the tests on real, embedded servers
	$(PYTEST) -m "integration and not thorough" $(ARGS)

# The suites wait for servers half of the time, so the types are checked beside them.
test: lint class-archive ## everything that must pass: check, and every suite, by three processes; PROCESSES=2
	@types=$$(mktemp); $(BIN)/mypy > "$$types" 2>&1 & checking=$$!; status=0; \
	echo "$(PYTEST) -n $(PROCESSES) --dist worksteal --durations 30 $(ARGS)"; \
	$(PYTEST) -n $(PROCESSES) --dist worksteal --durations 30 $(ARGS) || status=$$?; \
	wait $$checking || status=1; cat "$$types"; rm -f "$$types"; exit $$status

thorough: class-archive ## the tests that `make test` leaves out, as they take long; samples of their kinds are in it
	$(PYTEST) -m thorough -n $(PROCESSES) --dist worksteal --durations 30 $(ARGS)

class-archive: setup
	@$(BIN)/python -m tests.servers.class_archive

golden: setup ## compare our events with the recorded ones, case by case
	@set -e; for cases in $(if $(ARGS),"$(ARGS)",tests/golden/postgres tests/golden/mongodb); do \
		$(BIN)/python -m tests.golden $$cases; done

test-cluster: setup ## jobs on a Spark cluster whose workers share no disk with the driver; needs the right to unshare
	$(PYTEST) tests/integration/test_cluster.py tests/integration/check_cluster*.py $(ARGS)

debezium-cases: setup ## the cases of Debezium's tests of incremental snapshots, signals and notifications, by their names there
	$(PYTEST) tests/integration/check_debezium_cases.py tests/integration/check_debezium_signals.py \
		tests/integration/check_debezium_blocking.py $(ARGS)

test-page: setup ## the status page in a headless Chromium, with axe-core; SCREENSHOT=file.png keeps a picture
	@.ci/chromium
	$(BIN)/python -m pip install --quiet --disable-pip-version-check playwright==1.65.2
	$(PYTEST) tests/page -o python_files="check_*.py" $(ARGS)

test-sqlserver: setup ## SQL Server 2019, 2022 and 2025 from Microsoft's images: what the stand-in is tested with, and more
	@docker info > /dev/null || { echo "test-sqlserver needs Docker"; exit 1; }
	$(PYTEST) tests/integration/test_sqlserver_containers.py tests/integration/check_debezium_images.py $(ARGS)

test-newest: setup ## check, unit tests, a test of each source and the demo on PySpark 4.3; ARGS="3.12", STEPS="check unit"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@STEPS="$(STEPS)" .ci/newest $(ARGS)

import-offsets: setup ## a job that goes on where the real Debezium 2.1.4 or 3.6.1 stopped, in the middle of a snapshot too
	$(PYTEST) tests/integration/check_import_offsets.py tests/integration/check_import_mongodb_offsets.py $(ARGS)

recovery: setup ## logs lost in every way, on all sources, on real servers, and 600 drawn histories; RECOVERIES=2000
	RECOVERIES=$${RECOVERIES:-600} $(PYTEST) tests/unit/engine/job/test_recovery.py
	$(PYTEST) tests/integration/test_recovery.py tests/integration/check_recovery.py $(ARGS)

slot-failover: setup ## a promoted standby goes on with a synchronised slot
	$(PYTEST) tests/integration/check_slot_failover.py $(ARGS)

server-move: setup ## a job moves to what pg_upgrade made of its server, and nowhere else
	$(PYTEST) tests/integration/check_server_move.py $(ARGS)

delta-table: setup ## PYTHON.md's code for a Delta table, crashed behind each merge, compared with its source
	$(PYTEST) tests/integration/check_delta_table.py $(ARGS)

verify-jdbc: setup ## tables that the sink jdbc writes, broken behind its back, under writes too: verified, repaired
	$(PYTEST) tests/integration/check_verification_jdbc.py $(ARGS)

verify-lake: setup ## tables of Delta Lake and Iceberg, broken behind the job's back, under writes too: verified, repaired, recovered
	$(PYTEST) tests/integration/check_verification_lake.py $(ARGS)

verify-against: setup ## tables that somebody else keeps, late and with faults, under writes too: verified (11 tests, 7 min)
	$(PYTEST) tests/integration/check_verification_against.py tests/integration/check_verification_against_sqlserver.py $(ARGS)

jvm-ends: setup ## a job whose JVM is killed under load, or has too little memory, and its restart (2 tests, 2 min)
	$(PYTEST) tests/integration/check_jvm_ends.py $(ARGS)

jdbc-killed: setup ## a job with the sink jdbc, killed under load and snapshots; then its tables are compared; KILLS=50
	$(PYTEST) tests/integration/check_jdbc_killed.py $(ARGS)

lake: setup ## jobs with the sinks delta and iceberg, whose packages are downloaded: types, evolution, upkeep, crashes; STRIDE=6: at every sixth step
	$(PYTEST) tests/integration/check_lake_job.py tests/integration/check_lake_types.py \
		tests/integration/check_lake_source_types.py tests/integration/check_lake_tables.py \
		tests/integration/check_lake_changes.py $(ARGS)

lake-killed: setup ## a job with the sink delta, killed under load and snapshots; then its tables are compared; KILLS=50 SINK=iceberg
	$(PYTEST) tests/integration/check_lake_killed.py $(ARGS)

older-release: setup ## the last commit before version 2 of the state continues a state saved by this one, and back
	$(PYTEST) tests/integration/check_older_release.py $(ARGS)

bench: setup ## measure everything into tests/bench/RESULTS.md; ARGS="--runs 1" or "--only stream-wide"
	$(BIN)/python -m tests.bench.suite $(ARGS)

bench-peers: setup ## the same beside the real Debezium, 2.1.4 and 3.6.1; ARGS="--runs 3"
	$(BIN)/python -m tests.bench.suite --peers $(ARGS)

floats: setup ## ten million floats of each width beside what Java writes; ARGS="--patterns 1000000"
	$(BIN)/python -m tests.java.floats $(ARGS)

consumers: setup ## events as Kafka Connect, Debezium's transforms and JDBC sink, Flink and Spark read them
	$(PYTEST) tests/consumers -o python_files="check_*.py" $(ARGS)

fuzz: setup ## a million bad inputs for every parser; ARGS="--only bson --inputs 10000", or --atheris for libFuzzer's
	@case "$(ARGS)" in *--atheris*) $(BIN)/python -m pip install --quiet --disable-pip-version-check atheris==3.0.0;; esac
	$(BIN)/python -m tests.fuzz $(ARGS)

many-jobs: setup ## what each of 50 jobs in one process costs, in memory and idle CPU; ARGS="--jobs 20 --seconds 30"
	$(BIN)/python -m tests.bench.many_jobs $(ARGS)

idle: setup ## a job with nothing to do for an hour, through Kafka, and then a row; ARGS="--minutes 20 --fencing transactions"
	$(BIN)/python -m tests.idle $(ARGS)

torture: setup ## random histories with crashes, judged by an oracle; ARGS="--seed 1 --minutes 60" or "--mutate"
	$(BIN)/python -m tests.torture $(ARGS)

simulate: setup ## simulated histories, replayed by their seed; ARGS="--world sqlserver --count 100", "--world verify", "--minutes 60 --processes 2"
	$(BIN)/python -m tests.simulation $(ARGS)

simulate-mutants: setup ## mutants of what decides, each to be caught by the simulator; ARGS="--only fencing"
	$(BIN)/python -m tests.simulation.mutants $(ARGS)

prove: setup ## every order of 3 keys, 4 transactions, 2 windows, 2 slices, 2 crashes; ARGS="--every 100"
	$(BIN)/python -m tests.exhaustive $(ARGS)

demo: setup ## a snapshot under a live write load, compared with its source; MODE=initial: before the log
	$(BIN)/python -m tests.demo $(if $(filter initial,$(MODE)),--initial) $(ARGS)

demo-kafka: setup ## the same through a Kafka broker: the signal as a record, the events from a consumer
	$(BIN)/python -m tests.demo --sink kafka $(ARGS)

demo-lake: setup ## the same into tables of Delta Lake, compared by Spark SQL; SINK=iceberg: of Iceberg
	$(BIN)/python -m tests.demo --sink $(or $(SINK),delta) $(ARGS)

demo-mongodb: setup ## the same on a replica set of MongoDB
	$(BIN)/python -m tests.demo --source mongodb $(if $(filter initial,$(MODE)),--initial) $(ARGS)

demo-verify: setup ## 10,000 faults put into the files of a running job, the verdicts about them, and their repair
	$(BIN)/python -m tests.demo.verify $(ARGS)

lock: setup ## resolve the dependencies of pyproject.toml anew
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(LOCK) --upgrade
	$(LOCK_IMAGE) --upgrade
	$(LOCK_BUILD) --upgrade

manifests: setup ## the manifests for Kubernetes by its published schemas, of the version in ARGS (1.37)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(TOOL) kubernetes-validate==1.37.0 kubernetes-validate --strict --quiet \
		--kubernetes-version $(or $(ARGS),1.37) adapters/kubernetes/*.yaml

audit: setup ## what is known against the locked packages and the jars: asks PyPI and OSV, so it needs the Internet
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@status=0; $(TOOL) pip-audit==2.10.1 pip-audit --requirement requirements.lock --require-hashes --disable-pip \
		--strict --progress-spinner off $(ARGS) || status=1; \
	$(BIN)/python -m tests.supply audit || status=1; exit $$status

sbom: setup ## the parts of the image as a CycloneDX bill of materials, into build/sbom.json
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@mkdir -p build
	$(TOOL) cyclonedx-bom==7.5.0 cyclonedx-py requirements .ci/image.lock --pyproject pyproject.toml \
		--output-reproducible --output-file build/sbom.json
	$(BIN)/python -m tests.supply sbom build/sbom.json

base-digest: ## the base image with the digest that the registry has for its tag; needs Docker and the Internet
	@image=$$(sed -n 's/^ARG BASE=\([^@]*\).*/\1/p' Dockerfile) && \
		digest=$$(docker buildx imagetools inspect "$$image" --format '{{.Manifest.Digest}}') && \
		echo "$$image@$$digest"

clean: ## remove what the other targets made
	rm -rf .venv .cache build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -rf spark-warehouse metastore_db derby.log demo-events
