"""`rocketmq-py serve` with the `plain_acl.yml` and the `tls.properties` of a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_py import (
    Credentials,
    DefaultMQProducer,
    Message,
    MQClientException,
    PermissionDeniedError,
    SendStatus,
    TlsConfig,
)
from tests.certificates import Certificates
from tests.unit.embedded_broker.cli.test_serve import run_to_the_end, serving

ACCOUNTS = """
accounts:
  - accessKey: writer-key
    secretKey: writer-secret
    defaultTopicPerm: PUB
"""


def test_accounts_and_certificates_come_from_the_files_of_a_real_broker(
    certificates: Certificates, tmp_path: Path
) -> None:
    accounts, secured = tmp_path / "plain_acl.yml", tmp_path / "tls.properties"
    accounts.write_text(ACCOUNTS, encoding="utf-8")
    server = certificates.server
    secured.write_text(
        f"tls.server.mode=enforcing\ntls.server.certPath={server.chain}\n"
        f"tls.server.keyPath={server.key}\n",
        encoding="utf-8",
    )
    files = ("--acl", str(accounts), "--tls", str(secured))
    known = Credentials("writer-key", "writer-secret")
    trusting = TlsConfig(ca_file=certificates.authority)
    with serving("--topic", "T", *files) as (_, words):
        address = words["namesrv"]
        with DefaultMQProducer(
            "G", namesrv_addr=address, credentials=known, use_tls=True, tls_config=trusting
        ) as producer:
            assert producer.send(Message("T", b"x")).send_status is SendStatus.SEND_OK
        with (
            DefaultMQProducer(
                "G2", namesrv_addr=address, use_tls=True, tls_config=trusting
            ) as unknown,
            pytest.raises(PermissionDeniedError, match=r"[Aa]ccess ?[Kk]ey"),
        ):
            unknown.send(Message("T", b"x"))
        with (
            DefaultMQProducer("G3", namesrv_addr=address, credentials=known) as plain,
            pytest.raises(MQClientException),
        ):
            plain.send(Message("T", b"x"))


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--tls", "tls = '{file} line 2' is not possible: a line is name=value"),
        ("--acl", "acl = '{file} line 3' is not possible: it cannot be read: mapping"),
    ],
)
def test_a_file_of_another_kind_is_named_with_its_option_and_line(
    tmp_path: Path, option: str, words: str
) -> None:
    file = tmp_path / "c.py"
    file.write_text("# a comment\nimport os\nif os: print(os)\n", encoding="utf-8")
    done = run_to_the_end(option, str(file))
    assert done.returncode == 1
    assert words.format(file=file) in done.stderr
