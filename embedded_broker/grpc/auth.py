"""Authentication of a gRPC call: who calls by its metadata, and whether the signature is right.

Signature v1: the text of ``x-mq-date-time``, whatever the clocks say, signed with HMAC-SHA1. The
account is what stands before the first ``/`` of ``Credential`` (``AuthenticationHeader`` and
``DefaultAuthenticationContextBuilder`` of the original). Must not know: accounts, protobuf.
"""

import hmac
from collections.abc import Iterable
from hashlib import sha1
from typing import Final, Self

from attrs import frozen

_CLIENT_ID: Final = "x-mq-client-id"
_FIELDS: Final = {
    _CLIENT_ID: "client_id",
    "x-mq-language": "language",
    "x-mq-client-version": "version",
    "x-mq-date-time": "date_time",
    "authorization": "authorization",
}
TEXT_MAX: Final = 1024
"""Characters of a value that are read."""


@frozen(kw_only=True)
class Metadata:
    """The headers of a call that mean something here."""

    client_id: str = ""
    language: str = ""
    version: str = ""
    date_time: str = ""
    authorization: str = ""

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str | bytes]]) -> Self:
        """Read headers; of several of one name the last one counts."""
        found: dict[str, str] = {}
        for key, value in pairs:
            name = _FIELDS.get(key)
            if name is not None:
                text = value if isinstance(value, str) else value.decode("utf-8", "replace")
                found[name] = text[:TEXT_MAX].strip()
        return cls(**found)


class SignedCall:
    """The claim of one call; ``core.guards.Claim``.

    >>> said = "MQv2-HMAC-SHA1 Credential=ak//Rocketmq, SignedHeaders=x-mq-date-time, Signature=0A"
    >>> SignedCall("SendMessage", Metadata(authorization=said)).account
    'ak'
    """

    __slots__ = ("_date_time", "_signature", "account", "call")

    def __init__(self, call: str, metadata: Metadata) -> None:
        self.call = call
        items: dict[str, str] = {}
        for item in metadata.authorization.partition(" ")[2].split(","):
            name, _, value = item.strip().partition("=")
            items[name.strip()] = value.strip()
        self.account: str | None = items.get("Credential", "").partition("/")[0] or None
        self._signature = items.get("Signature", "")
        self._date_time = metadata.date_time

    def is_signed_with(self, secret: str) -> bool:
        """Say whether the time of the call was signed with this secret."""
        made = hmac.new(secret.encode(), self._date_time.encode(), sha1).hexdigest()
        said = self._signature.lower().encode("utf-8", "replace")
        return bool(self._date_time) and hmac.compare_digest(made.encode(), said)
