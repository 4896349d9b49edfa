"""Access to the HTTP face: checked for every request, before anything else.

Answers: whether a request is let in. With a token, whoever knows it. Without one, programs of this
host alone, and no page of a browser: a page of another site can send requests to this host, under a
name of its own (DNS rebinding) or across origins. Must not know: operations. Read on: ``app.py``.
"""

from collections.abc import Mapping
from hmac import compare_digest
from typing import Final

from attrs import frozen

from embedded_broker.tables.peer import is_loopback

_BEARER: Final = "bearer "


@frozen
class Refusal:
    """Why a request is not let in, and as which status."""

    status: int
    title: str
    detail: str


@frozen
class Gatekeeper:
    """Lets requests in or not; ``token`` is None on a face that only this host reaches."""

    _token: str | None

    def refuses(self, peer: str | None, headers: Mapping[str, str]) -> Refusal | None:
        """Say why a request from an address is not let in; None when it is."""
        if self._token is not None:
            given = headers.get("authorization", "")
            known = given[: len(_BEARER)].lower() == _BEARER
            if known and compare_digest(given[len(_BEARER) :].encode(), self._token.encode()):
                return None
            return Refusal(
                401, "TokenNeeded", "send the header Authorization: Bearer and the control token"
            )
        if not is_loopback(peer or ""):
            return Refusal(
                403, "OtherHost", f"{peer} is another host: without a control token only this one"
            )
        host = headers.get("host", "")
        if not is_loopback(_name_of(host)):
            return Refusal(
                403, "OtherName", f"the header Host = {host!r} names no address of this host alone"
            )
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return Refusal(403, "OtherOrigin", f"a page of {origin!r} may not control the broker")
        return None


def _name_of(host: str) -> str:
    """Give the header ``Host`` without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
