"""Requests that change accounts change the `plain_acl.yml` that the accounts came from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from embedded_broker import EmbeddedBroker, PlainAcl
from tests.unit.embedded_broker.core.access.signed import SECRET
from tests.unit.embedded_broker.remoting.handlers.admin.test_plain_access import may_send, put


def test_a_change_is_in_the_file_when_it_is_answered(
    start_broker: Callable[..., EmbeddedBroker], tmp_path: Path
) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(
        f"accounts:\n- accessKey: administrator\n  secretKey: '{SECRET}'\n  admin: true\n",
        encoding="utf-8",
    )
    broker = start_broker(acl=path, profile="rocketmq-4.9", tcp=False, topics=["T"])
    put(broker, secretKey="another secret", topicPerms="T=PUB")
    again = PlainAcl.from_file(path)
    assert [one.access_key for one in again.accounts] == ["administrator", "someone1"]
    assert may_send(broker, secret="another secret")
