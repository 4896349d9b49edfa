"""How a request is signed with a secret key, and how a signature is checked.

The text is the values of all extra fields in the order of their names, the signature itself left
out, then the body (`AclUtils`, `AclSigner`). Must not know accounts or permissions. Sign after
every hook that adds extra fields.
"""

from collections.abc import Callable, Collection, Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hmac import HMAC

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 - the name of a field, not a secret
ONS_CHANNEL: Final = "OnsChannel"
UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"

_LEFT_OUT_BY_CLIENTS: Final = (
    UNIQUE_KEY_QUERY,  # 4.9 clients sign it, 4.9 brokers leave it out; 5.x the other way round
    SECURITY_TOKEN,  # the Go client leaves it out
)


def text(ext_fields: Mapping[str, str], body: bytes = b"", without: Collection[str] = ()) -> bytes:
    """Build the signed text; fields named in `without` are left out."""
    # The order of characters is that of their UTF-8 bytes, too.
    values = [
        ext_fields[name] for name in sorted(ext_fields) if name != SIGNATURE and name not in without
    ]
    return "".join(values).encode(errors="replace") + body


def sign(secret: str, ext_fields: Mapping[str, str], body: bytes = b"") -> str:
    """Compute the signature: Base64 of HMAC-SHA1.

    >>> sign("12345678", {"AccessKey": "rocketmq2", "topic": "TBW102"})
    '/u5P/wZUbhjanu4LM/UzEdo2u2I='
    """
    return _tools()[0](_digest(secret, text(ext_fields, body))).decode()


def verify(secret: str, ext_fields: Mapping[str, str], body: bytes = b"") -> bool:
    """Say whether the field `Signature` fits one of the texts that known clients sign.

    Takes the same time wherever the texts differ.
    """
    given = ext_fields.get(SIGNATURE, "").encode()
    encode, compare = _tools()
    fits = compare(encode(_digest(secret, text(ext_fields, body))), given)
    for name in _LEFT_OUT_BY_CLIENTS:
        if name in ext_fields:
            other = _digest(secret, text(ext_fields, body, (name,)))
            fits |= compare(encode(other), given)
    return fits


def _digest(secret: str, signed: bytes) -> bytes:
    mac = _keyed(secret).copy()
    mac.update(signed)
    return mac.digest()


@lru_cache(64)
def _keyed(secret: str) -> "HMAC":
    """Begin a signature: the key is the same for many requests."""
    from hmac import new  # costs more to load than all of the protocol

    return new(secret.encode(), digestmod="sha1")


@cache
def _tools() -> tuple[Callable[[bytes], bytes], Callable[[bytes, bytes], bool]]:
    from base64 import b64encode
    from hmac import compare_digest

    return b64encode, compare_digest
