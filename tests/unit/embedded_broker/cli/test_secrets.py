from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from embedded_broker.cli.secrets import token_of, warn_of_shown
from rocketmq_py.errors import ConfigError
from tests.unit.embedded_broker.cli.test_serve import FREE_PORTS, SERVE

TOKEN = "a-token-of-some-length"
USER = '{"username":"owner","password":"hidden-one"}'


def ended(*options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a server that cannot start, since its host is none."""
    return subprocess.run(
        [*SERVE, *FREE_PORTS, "--host", "no host", *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **variables},
    )


def test_secrets_among_the_arguments_are_told_once_with_what_to_use_instead() -> None:
    done = ended(
        *("--control-port", "0", "--control-token", TOKEN),
        *("--set", f"initAuthenticationUser={USER}", "--set", f"initAuthenticationUser={USER}"),
        *("--set", "flushDiskType=SYNC_FLUSH"),
    )
    told = [line for line in done.stderr.splitlines() if "arguments of a process" in line]
    assert len(told) == 1
    for words in (
        "--set initAuthenticationUser, --control-token:",
        "a file for --conf",
        "ROCKETMQ_CONTROL_TOKEN or --control-token-file",
    ):
        assert words in told[0]
    assert "flushDiskType" not in told[0]
    assert TOKEN not in done.stderr
    assert "hidden-one" not in done.stderr


def test_secrets_that_nobody_sees_are_not_warned_of(tmp_path: Path) -> None:
    conf, token = tmp_path / "broker.conf", tmp_path / "token"
    conf.write_text(f"initAuthenticationUser={USER}\n", encoding="utf-8")
    token.write_text(f"{TOKEN}\n", encoding="utf-8")
    by_file = ended("--control-port", "0", "--conf", str(conf), "--control-token-file", str(token))
    by_variable = ended("--control-port", "0", ROCKETMQ_CONTROL_TOKEN=TOKEN)
    for done in (by_file, by_variable):
        assert "arguments of a process" not in done.stderr
        assert "no host" in done.stderr


def test_the_token_of_a_file_is_the_one_of_the_face(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n", encoding="utf-8")
    done = ended("--allow-remote", "--control-token-file", str(token))
    assert "only with --control-port" in done.stderr
    token.write_text("short\n", encoding="utf-8")
    refused = ended("--allow-remote", "--control-port", "0", "--control-token-file", str(token))
    assert "<5 characters>" in refused.stderr


def test_a_token_is_given_in_one_way_only(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN, encoding="utf-8")
    done = ended("--control-token", TOKEN, "--control-token-file", str(token))
    assert done.returncode == 1
    assert "--control-token-file" in done.stderr
    assert TOKEN not in done.stderr


def test_a_repair_warns_of_secrets_too(tmp_path: Path) -> None:
    program = [*SERVE[:-1], "store", "repair", str(tmp_path), str(tmp_path / "new")]
    done = subprocess.run(
        [*program, "--set", f"initAuthenticationUser={USER}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr.count("arguments of a process") == 1
    assert "hidden-one" not in done.stderr


@pytest.mark.parametrize("text", ["", "\n", "one\ntwo\n", "x" * 4097])
def test_a_file_of_a_secret_holds_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"--control-token-file.*one line") as caught:
        token_of(None, path, is_argument=False)
    assert "two" not in str(caught.value)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="can be read"):
        token_of(None, path, is_argument=False)


def test_a_file_of_a_secret_gives_its_line(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\r\n", encoding="utf-8")
    assert token_of(None, path, is_argument=False) == TOKEN
    assert token_of(TOKEN, None, is_argument=True) == TOKEN


def test_no_word_without_a_secret(capsys: pytest.CaptureFixture[str]) -> None:
    warn_of_shown(["aclEnable=true", "noSuchOption=1"])
    assert capsys.readouterr().err == ""
