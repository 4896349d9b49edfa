"""Accounts and certificates of a command: settings of a client, and secrets that nobody sees."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from embedded_broker import EmbeddedBroker, PlainAccount, PlainAcl, Tls
from embedded_broker.cli.access import client_settings
from rocketmq_py import Credentials, TlsConfig
from rocketmq_py.config import ClientSettings
from rocketmq_py.protocol.json_text import loads
from tests.certificates import Certificates

TIMERS = [sys.executable, "-c", "from embedded_broker.cli import main; main()", "timers"]
SECRET = "a-secret-of-tests"


def settings(
    access_key: str | None = None,
    *,
    tls: bool = False,
    ca_file: Path | None = None,
    cert_file: Path | None = None,
) -> ClientSettings:
    return client_settings(access_key=access_key, tls=tls, ca_file=ca_file, cert_file=cert_file)


def timers(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TIMERS, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
        env={**os.environ, "COLUMNS": "120", **variables},
    )


def test_without_options_a_client_is_as_it_always_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETMQ_SECRET_KEY", SECRET)
    assert settings() == {}


def test_an_account_takes_its_secrets_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ROCKETMQ_SECRET_KEY", SECRET)
    monkeypatch.delenv("ROCKETMQ_SECURITY_TOKEN", raising=False)
    assert settings("key") == {"credentials": Credentials("key", SECRET)}
    monkeypatch.setenv("ROCKETMQ_SECURITY_TOKEN", "token")
    assert settings("key") == {"credentials": Credentials("key", SECRET, "token")}
    assert SECRET not in repr(settings("key"))


def test_an_account_without_its_secret_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCKETMQ_SECRET_KEY", raising=False)
    with pytest.raises(typer.BadParameter, match="variable ROCKETMQ_SECRET_KEY must hold"):
        settings("key")


def test_a_file_of_certificates_means_tls() -> None:
    assert settings(tls=True) == {"use_tls": True, "tls_config": TlsConfig()}
    file = Path("ca.pem")
    assert settings(ca_file=file) == {"use_tls": True, "tls_config": TlsConfig(ca_file=file)}
    assert settings(cert_file=file) == {"use_tls": True, "tls_config": TlsConfig(cert_file=file)}


def test_a_broker_with_accounts_and_tls_tells_an_account_that_shows_itself(
    certificates: Certificates,
) -> None:
    owner = PlainAccount(access_key="owner-key", secret_key=SECRET, admin=True)
    secured = Tls(
        certificate=certificates.server.chain, key=certificates.server.key, mode="enforcing"
    )
    with EmbeddedBroker(acl=PlainAcl(accounts=[owner]), tls=secured, topics=["T"]) as broker:
        broker.send("T", b"x", delay=600)
        trusted = (broker.addr, "--json", "--ca-file", str(certificates.authority))
        known = timers(*trusted, "--access-key", "owner-key", ROCKETMQ_SECRET_KEY=SECRET)
        by_variable = timers(*trusted, ROCKETMQ_ACCESS_KEY="owner-key", ROCKETMQ_SECRET_KEY=SECRET)
        nobody = timers(*trusted)
        impostor = timers(*trusted, "--access-key", "owner-key", ROCKETMQ_SECRET_KEY="wrong-one")
        untrusting = timers(broker.addr, "--tls")
    for done in (known, by_variable):
        assert (done.returncode, done.stderr) == (0, "")
        assert loads(done.stdout)[0]["total"] == 1
    assert (nobody.returncode, impostor.returncode, untrusting.returncode) == (3, 3, 2)
    assert "certificate" in untrusting.stderr
    assert "wrong-one" not in impostor.stdout + impostor.stderr


def test_the_help_names_the_variables_and_shows_no_secret() -> None:
    done = timers("--help", ROCKETMQ_ACCESS_KEY="my-account", ROCKETMQ_SECRET_KEY=SECRET)
    assert "ROCKETMQ_ACCESS_KEY" in done.stdout
    assert "ROCKETMQ_SECRET_KEY" in done.stdout
    assert SECRET not in done.stdout
