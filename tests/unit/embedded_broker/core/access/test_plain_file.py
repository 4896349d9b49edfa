"""A broker whose accounts come from a `plain_acl.yml` judges by what the file says now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.protocol.codes import ResponseCode
from tests.unit.embedded_broker.core.access.signed import ask
from tests.unit.embedded_broker.core.access.test_plain import refusal

FILE = """\
accounts:
  - accessKey: producer
    secretKey: 12345678
    defaultTopicPerm: PUB
"""


def test_accounts_of_a_file_follow_the_file(
    start_broker: Callable[..., EmbeddedBroker], tmp_path: Path
) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(FILE, encoding="utf-8")
    session = VirtualClock()
    config = {"aclEnable": True, "plainAclFile": str(path)}
    broker = start_broker(config=config, tcp=False, session_clock=session)
    assert refusal(broker, 310, key="producer") is None

    path.write_text(FILE.replace("PUB", "SUB|PUB").replace("producer", "renamed"), encoding="utf-8")
    session.advance(1)
    broker._parts().flush_everything()  # behind what the background does before

    assert refusal(broker, 310, key="producer") == "No acl config for producer"
    assert refusal(broker, 310, key="renamed", secret="wrong one") is not None
    assert ask(broker, 310, key="renamed").code == ResponseCode.SUCCESS
