"""A certificate authority for servers and clients that use TLS in tests.

Uses the `openssl` command, which comes with every system's CA certificates.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_DAYS = "2"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its key (unencrypted PKCS #8), as PEM files."""

    certificate: Path
    key: Path

    def archive(self, password: str) -> Path:
        """Both in one PKCS #12 file."""
        out = self.key.with_suffix(".p12")
        _openssl(
            *("pkcs12", "-export", "-in", str(self.certificate), "-inkey", str(self.key)),
            *("-passout", f"pass:{password}", "-out", str(out)),
        )
        return out


class Authority:
    """Signs certificates. Its own, which clients trust, is `root`."""

    def __init__(self, folder: Path, name: str = "tests") -> None:
        self._folder = folder
        self.root, self._key = folder / f"{name}-ca.crt", folder / f"{name}-ca.key"
        folder.mkdir(parents=True, exist_ok=True)
        _openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", _DAYS, "-subj", f"/CN={name}"),
            *("-keyout", str(self._key), "-out", str(self.root)),
        )

    def certificate(self, name: str, *hosts: str) -> Certificate:
        """A new certificate for a common name, and for hosts as `DNS:…` or `IP:…`."""
        made = Certificate(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        request, extensions = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={','.join(hosts)}\n" if hosts else "")
        _openssl(
            *("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}"),
            *("-keyout", str(made.key), "-out", str(request)),
        )
        _openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(self.root), "-CAkey", str(self._key)),
            *("-CAcreateserial", "-days", _DAYS, "-extfile", str(extensions), "-out", str(made.certificate)),
        )
        made.key.chmod(0o600)
        return made


def converted(key: Path, form: str, *, password: str | None = None, traditional: bool = False) -> Path:
    """A key as PEM or DER, encrypted if there is a password, or in the traditional form before PKCS #8."""
    out = key.with_name(f"{key.stem}-{form}-{bool(password)}-{traditional}.key")
    if traditional:
        command = ["rsa", "-traditional"]
    else:
        command = ["pkcs8", "-topk8", *(["-passout", f"pass:{password}"] if password else ["-nocrypt"])]
    _openssl(*command, "-in", str(key), "-outform", form, "-out", str(out))
    out.chmod(0o600)
    return out


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]} failed: {done.stderr}")
