"""What the job removes of a staging directory, and what it never does."""

from __future__ import annotations

import pytest

from adapters.storage.workspace import check, staging_base, take_workspace, workspace_of
from engine.config import parse
from engine.config.settings import JobSettings
from engine.errors import ConfigError


def settings(tmp_path):
    return parse(
        {
            "database.hostname": "h",
            "database.user": "u",
            "database.dbname": "d",
            "topic.prefix": "shop",
            "tidemark.checkpoint": str(tmp_path / "state"),
            "tidemark.sink.files.dir": str(tmp_path / "events"),
        }
    )


def test_what_earlier_epochs_staged_is_gone_and_nothing_else(tmp_path):
    (tmp_path / "precious").write_text("x")
    workspace = workspace_of(str(tmp_path), "shop", "/state")
    old = take_workspace(workspace, 7)
    (old / "run.arrow").write_text("x")
    other = take_workspace(workspace_of(str(tmp_path), "shop", "/another/state"), 1)
    new = take_workspace(workspace, 8)

    assert not old.exists()
    assert new.is_dir()
    assert other.is_dir()
    assert (tmp_path / "precious").exists()


def test_only_its_owner_may_enter(tmp_path):
    new = take_workspace(workspace_of(str(tmp_path), "shop", "/state"), 1)

    assert new.stat().st_mode & 0o777 == new.parent.stat().st_mode & 0o777 == 0o700


def test_a_directory_of_that_name_that_is_not_ours_is_left_alone(tmp_path):
    workspace = workspace_of(str(tmp_path), "shop", "/state")
    workspace.mkdir()
    (workspace / "precious").mkdir()

    with pytest.raises(ConfigError, match="holds files that are not Tidemark's"):
        take_workspace(workspace, 1)
    assert (workspace / "precious").exists()


def test_check_tells_of_it(tmp_path):
    found = settings(tmp_path)
    check(found)
    workspace = workspace_of(str(tmp_path / "state" / "staging"), "shop", str(tmp_path / "state"))
    workspace.mkdir(parents=True)
    (workspace / "precious").write_text("x")

    with pytest.raises(ConfigError, match=r"not Tidemark's.*tidemark\.staging\.dir"):
        check(found)


@pytest.mark.parametrize(
    ("checkpoint", "staging", "base"),
    [
        ("/c", None, "/c/staging"),
        ("file:///c", None, "/c/staging"),
        ("/c", "/s", "/s"),
        ("s3a://bucket/c", None, None),
        ("s3a://bucket/c", "/s", "/s"),
        (None, None, None),
    ],
)
def test_staged_rows_lie_beside_a_local_checkpoint_unless_a_directory_is_given(checkpoint, staging, base):
    assert staging_base(JobSettings(checkpoint=checkpoint, staging=staging)) == base
