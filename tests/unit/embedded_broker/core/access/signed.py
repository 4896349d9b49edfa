"""Requests that are signed by an account, from any host, to a broker without sockets."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping

from embedded_broker import EmbeddedBroker
from rocketmq_py.protocol import signing
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FrameDecoder
from tests.hostile.extreme_requests import FORMS, FORMS_OF_4_9
from tests.unit.embedded_broker import peers

SECRET = "12345678"
GUARD_S = 20.0
ALL_FORMS = FORMS | FORMS_OF_4_9
"""An ordinary request of every code of every version."""


def everything(broker: EmbeddedBroker) -> dict[str, object]:
    """All that requests change: what is stored, configured and committed, and who is there."""
    parts = broker._parts()
    with parts.door:
        return {
            "log": parts.store.log.max_offset,
            "tables": json.dumps(parts.table_files.documents(), sort_keys=True),
            "options": broker.config.items(),
            "accounts": None if parts.accounts is None else parts.accounts.acl,
            "consumers": list(parts.tables.consumers.groups()),
            "producers": list(parts.tables.producers.groups()),
        }


class Waiting(peers.Peer):
    """A peer whose answer may come from another thread."""

    def __init__(self, host: str) -> None:
        super().__init__(host)
        self.answered = threading.Event()

    def deliver(self, frames: list[bytes]) -> None:
        super().deliver(frames)
        self.answered.set()


def signed(
    fields: Mapping[str, str], body: bytes, key: str | None, secret: str = SECRET
) -> dict[str, str]:
    """The fields of a request that `key` signs; nobody does for None."""
    if key is None:
        return dict(fields)
    signed = {**fields, signing.ACCESS_KEY: key}
    return {**signed, signing.SIGNATURE: signing.sign(secret, signed, body)}


def ask(
    broker: EmbeddedBroker,
    code: int,
    fields: Mapping[str, str] | None = None,
    body: bytes | None = None,
    *,
    key: str | None = None,
    secret: str = SECRET,
    host: str = "10.1.2.3",
) -> RemotingCommand:
    """The answer to a request; without fields it is an ordinary one of its code."""
    if fields is None:
        form = ALL_FORMS[code]
        fields, body = form.fields, form.body
    body = body or b""
    command = RemotingCommand(
        code, opaque=7, version=479, ext_fields=signed(fields, body, key, secret), body=body
    )
    peer = Waiting(host)
    broker._parts().endpoint.receive(peer, FrameDecoder().feed(command.encode()))
    if not peer.answered.wait(GUARD_S):
        raise AssertionError(f"request {code} got no answer")
    return peer.answers[0]
