"""Certificates for tests of TLS, made by openssl where it is installed; they are good for a day.

An authority signs one for a server at 127.0.0.1 and localhost, one for a client, and one for
another host; a second authority signs a stranger's.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from attrs import frozen

HAS_OPENSSL = shutil.which("openssl") is not None
needs_openssl = pytest.mark.skipif(not HAS_OPENSSL, reason="openssl is not installed")


@frozen
class Certificate:
    """A PEM chain and its key."""

    chain: Path
    key: Path


@frozen
class Certificates:
    """All that tests need."""

    authority: Path
    server: Certificate
    elsewhere: Certificate
    client: Certificate
    stranger: Certificate


def _openssl(*arguments: object) -> None:
    command = ["openssl", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def _authority(folder: Path, name: str) -> Certificate:
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    _openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
        *("-days", 1, "-subj", f"/CN={name}", "-keyout", made.key, "-out", made.chain),
        *("-addext", "basicConstraints=critical,CA:TRUE"),
        *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
    )
    return made


def _signed(folder: Path, authority: Certificate, name: str, names: str) -> Certificate:
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    request, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
    extensions.write_text(
        f"subjectAltName={names}\nbasicConstraints=CA:FALSE\nkeyUsage=digitalSignature\n"
        "authorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n",
        encoding="ascii",
    )
    _openssl(
        *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
        *("-subj", f"/CN={name}", "-keyout", made.key, "-out", request),
    )
    _openssl(
        *("x509", "-req", "-days", 1, "-in", request, "-out", made.chain, "-extfile", extensions),
        *("-CA", authority.chain, "-CAkey", authority.key, "-CAcreateserial"),
    )
    return made


def make_certificates(folder: Path) -> Certificates:
    """Make all of them."""
    ours, theirs = _authority(folder, "authority"), _authority(folder, "another")
    here = "IP:127.0.0.1,DNS:localhost"
    return Certificates(
        authority=ours.chain,
        server=_signed(folder, ours, "server", here),
        elsewhere=_signed(folder, ours, "elsewhere", "DNS:broker.example"),
        client=_signed(folder, ours, "client", "DNS:client.example"),
        stranger=_signed(folder, theirs, "stranger", here),
    )


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates of this run."""
    if not HAS_OPENSSL:
        pytest.skip("openssl is not installed")
    return make_certificates(tmp_path_factory.mktemp("certificates"))
