"""The account that a remoting request names; its signature is judged by ``protocol.signing``.

Answers: which account signed a request, and whether with a given secret. The fields `AccessKey` and
`Signature` say so (`AclClientRPCHook`); every request is judged by itself. Must not know: accounts.
Read on: ``rocketmq_py/protocol/signing.py`` for what is signed.
"""

from collections.abc import Mapping

from rocketmq_py.protocol import signing


class SignedRequest:
    """The claim of one request; ``core.guards.Claim``."""

    __slots__ = ("_body", "_fields", "account", "call")

    def __init__(self, code: int, fields: Mapping[str, str], body: bytes) -> None:
        self.account = fields.get(signing.ACCESS_KEY)
        self.call = str(int(code))
        self._fields = fields
        self._body = body

    def is_signed_with(self, secret: str) -> bool:
        """Say whether the signature fits a text that a known client signs."""
        return signing.verify(secret, self._fields, self._body)
