"""The account that servers run under, and whether it can reach a folder.

PostgreSQL refuses to run as root. If we are root, its tools run as the unprivileged user that every Unix has;
otherwise they run as us. `postgres.py` starts them.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Account:
    """The user that servers run as. `uid` None means ourselves."""

    uid: int | None = None
    gid: int | None = None

    def popen_options(self) -> dict[str, Any]:
        """The arguments for `subprocess` to run a program as this account."""
        if self.uid is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def give(self, path: Path) -> None:
        """Make the account the owner of one file or folder."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)

    def new_folder(self, prefix: str) -> Path:
        """Create an empty folder that only this account can use, somewhere it can reach."""
        for parent in (None, "/var/tmp", "/tmp"):  # noqa: S108  (mkdtemp makes the name safe)
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            if self.reaches(folder.parent):
                self.give(folder)
                return folder
            folder.rmdir()
        raise RuntimeError("no temporary folder that an unprivileged user can reach; set TMPDIR to one")

    def reaches(self, path: Path) -> bool:
        """Whether the account may enter `path` and every folder above it."""
        if self.uid is None:
            return True
        return all(self._may_enter(folder) for folder in (path.resolve(), *path.resolve().parents))

    def _may_enter(self, folder: Path) -> bool:
        status = folder.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & stat.S_IXUSR)
        return bool(status.st_mode & stat.S_IXOTH)

    def copy_within_reach(self, source: Path) -> Path:
        """Copy the tree `source` to where the account can read it. The caller removes its parent."""
        folder = self.new_folder("tidemark-tools-")
        folder.chmod(0o755)
        return Path(shutil.copytree(source, folder / source.name, symlinks=True))


def server_account() -> Account:
    """`nobody` if we are root, else ourselves."""
    if os.geteuid() != 0:
        return Account()
    nobody = pwd.getpwnam("nobody")
    return Account(nobody.pw_uid, nobody.pw_gid)
