"""What the image is made of: locked by hashes, run by an ordinary user, and listed."""

from __future__ import annotations

import http.server
import json
import re
import threading
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest

from tests.supply.__main__ import complete, known
from tests.supply.jars import LZ4, TAKEN_OUT, Jar, jars, packages

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")


def blocks(name: str) -> set[str]:
    """The entries of a lock: a package, its version, where it is for, and its hashes."""
    return set(re.split(r"\n(?=\S)", (ROOT / name).read_text().strip()))


def test_the_images_lock_is_a_part_of_the_lock():
    image = blocks(".ci/image.lock")

    assert image <= blocks("requirements.lock")
    assert all("--hash=sha256:" in block for block in image | blocks(".ci/build.lock"))
    assert any(block.startswith("pyspark==") for block in image)
    assert not any(block.startswith("pytest==") for block in image)


def test_a_target_that_uses_uv_installs_it_first():
    """The lock does not contain uv."""
    recipes = re.split(r"\n(?=[a-z-]+:)", (ROOT / "Makefile").read_text())
    using = [recipe for recipe in recipes if re.search(r"\$\((LOCK|TOOL)|\.ci/newest", recipe)]
    using = [recipe for recipe in using if recipe[0].isalpha()]

    assert ".venv/bin/python -m uv" in (ROOT / ".ci/newest").read_text()
    assert len(using) == 5
    assert all("pip install --quiet --disable-pip-version-check uv" in recipe for recipe in using)


def test_the_image_installs_nothing_but_by_hashes():
    installs = re.findall(r"pip install ([^&\n]*)", DOCKERFILE)

    assert len(installs) == 3
    for arguments in installs:
        assert "--no-deps" in arguments
        assert "--require-hashes" in arguments or arguments.split()[-1] == "."
        assert "--no-build-isolation" in arguments or arguments.split()[-1] == "build.lock"


def test_the_image_runs_as_an_ordinary_user_from_a_base_of_a_fixed_release():
    users = re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE)
    bases = re.findall(r"^ARG BASE=(\S+)", DOCKERFILE, re.MULTILINE)

    assert users == ["10001"]
    assert DOCKERFILE.index("USER 10001") < DOCKERFILE.index("ENTRYPOINT")
    assert re.fullmatch(r"python:\d+\.\d+\.\d+-slim-\w+", bases[0])


def test_the_image_has_a_maintained_lz4_in_place_of_sparks():
    folder = Path(pyspark.__file__).parent / "jars"
    found = {jar.purl for jar in jars()}

    assert f"ARG LZ4={LZ4}\n" in DOCKERFILE
    assert all(f'"$jars"/{pattern}' in DOCKERFILE for pattern in TAKEN_OUT)
    assert all([*folder.glob(pattern)] for pattern in TAKEN_OUT), "another Spark: look at its jars again"
    assert [purl for purl in found if "lz4-java" in purl] == ["pkg:maven/at.yawk.lz4/lz4-java@1.14.0"]
    assert not any("derby" in purl for purl in found)


def jar(path: Path, **versions: str) -> Path:
    """A jar that holds these packages of the group `org.example`."""
    with ZipFile(path, "w") as content:
        for artifact, version in versions.items():
            name = f"META-INF/maven/org.example/{artifact}/pom.properties"
            content.writestr(name, f"#made\nversion={version}\n")
    return path


def test_a_jar_is_named_by_what_it_says_and_brings_what_it_bundles(tmp_path: Path):
    own, bundled = packages(jar(tmp_path / "own-1.2.jar", own="1.2", other="3"))
    (silent,) = packages(jar(tmp_path / "silent_2.13-4.0.7.jar"))

    assert (own.purl, bundled.purl) == ("pkg:maven/org.example/own@1.2", "pkg:maven/org.example/other@3")
    assert own.sha256
    assert not bundled.sha256
    assert silent.purl == "pkg:maven/silent_2.13@4.0.7"


def test_the_bill_lists_sparks_jars_and_the_drivers_each_once(tmp_path: Path):
    bill = tmp_path / "sbom.json"
    bill.write_text(json.dumps({"bomFormat": "CycloneDX", "components": [{"name": "pyspark"}]}))

    complete(bill, jars())

    components = json.loads(bill.read_text())["components"]
    references = [component["bom-ref"] for component in components[1:]]
    assert components[0] == {"name": "pyspark"}
    assert len(set(references)) == len(references) > 200
    for name in ("org.postgresql/postgresql@", "com.microsoft.sqlserver/mssql-jdbc@", "spark-core_2.13@"):
        assert any(name in reference for reference in references)


class Osv(http.server.BaseHTTPRequestHandler):
    """Knows something of the first package that it is asked about."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        results = [{"vulns": [{"id": "GHSA-1"}]}, *({} for _ in asked[1:])]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"results": results}).encode())

    def log_message(self, *_words):
        pass


def test_advisories_are_told_of_the_package_that_they_are_against():
    server = http.server.HTTPServer(("127.0.0.1", 0), Osv)
    serving = threading.Thread(target=server.handle_request)
    serving.start()
    try:
        found = known(
            [Jar("", "unknown", "1"), Jar("g", "a", "1"), Jar("g", "b", "2")],
            f"http://127.0.0.1:{server.server_port}",
        )
    finally:
        serving.join()
        server.server_close()

    assert found == {"pkg:maven/g/a@1": ["GHSA-1"]}


def test_an_answer_of_another_form_is_no_all_clear():
    with pytest.raises(ValueError, match="zip"):
        known([Jar("g", "a", "1"), Jar("g", "b", "1"), Jar("g", "c", "1")], 'data:,{"results": []}')
