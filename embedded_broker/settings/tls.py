"""Settings of TLS: certificates, and whether plain connections are served, too.

Answers: what a test or a `tls.properties` file of RocketMQ says about TLS, checked as far as it can
be without a connection. Must not know: sockets. Read on: ``embedded_broker/remoting/tls.py``, which
speaks it. Names in the file are the original's (`TlsSystemConfig`).
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, get_args

from attrs import field, frozen

from embedded_broker.settings.config import read_properties
from rocketmq_py.errors import ConfigError

if TYPE_CHECKING:
    from ssl import SSLContext

TlsMode = Literal["disabled", "permissive", "enforcing"]
ClientCertificates = Literal["none", "optional", "require"]
PathLike = str | os.PathLike[str]


def _one_of(kind: object) -> Any:  # Any: a validator of attrs
    choices = get_args(kind)

    def check(_tls: object, attribute: Any, value: object) -> None:
        if value not in choices:
            raise ConfigError(f"tls {attribute.name}", value, "one of " + ", ".join(choices))

    return check


@frozen(kw_only=True)
class Tls:
    """TLS of an embedded broker and its name server.

    ``certificate`` and ``key`` are PEM files, the chain and its private key. ``mode``:
    ``"permissive"`` serves plain connections on the same ports, told apart by their first byte,
    ``"enforcing"`` closes them, ``"disabled"`` closes those with TLS. ``client_certificates`` asks
    clients for theirs, which must be signed by an authority in the PEM file ``trusted``;
    ``"require"`` needs ``mode="enforcing"``, since a plain connection shows none. ``context`` is an
    ``ssl.SSLContext`` of your own instead of all files and of ``client_certificates``.
    """

    certificate: PathLike | None = None
    key: PathLike | None = None
    key_password: str | None = field(default=None, repr=False)
    mode: TlsMode = field(default="permissive", validator=_one_of(TlsMode))
    client_certificates: ClientCertificates = field(
        default="none", validator=_one_of(ClientCertificates)
    )
    trusted: PathLike | None = None
    context: "SSLContext | None" = field(default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.mode != "disabled" and self.certificate is None and self.context is None:
            raise ConfigError("tls certificate", None, "a PEM file: the broker makes none itself")
        if self.context is not None:
            self._check_context_is_alone()
        elif self.client_certificates != "none" and self.trusted is None:
            raise ConfigError(
                "tls trusted", None, "a PEM file of the authorities that sign certificates"
            )
        if self._requires_certificates and self.mode != "enforcing":
            raise ConfigError(
                "tls mode",
                self.mode,
                "enforcing when clients must show certificates: others connect without TLS and "
                'show none (client_certificates="optional" lets them)',
            )

    @property
    def _requires_certificates(self) -> bool:
        if self.context is None:
            return self.client_certificates == "require"
        return self.context.verify_mode.name == "CERT_REQUIRED"

    def _check_context_is_alone(self) -> None:
        names = ("certificate", "key", "key_password", "trusted")
        given = [name for name in names if getattr(self, name) is not None]
        given += ["client_certificates"] if self.client_certificates != "none" else []
        if given:
            raise ConfigError(f"tls {given[0]}", "given", "left to the context, which has its own")

    @classmethod
    def from_file(cls, path: PathLike) -> Self:
        """Read a `tls.properties`; names of clients, and those that RocketMQ does not know, too.

        Raises ``ConfigError`` for a file that cannot be read, and for what makes no server.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError("tls", str(path), f"a file that can be read: {error}") from error
        found = {_NAMES[name]: value for name, value in _assignments(text, path) if name in _NAMES}
        given: dict[str, Any] = {name: value for name, value in found.items() if value}
        for name in ("mode", "client_certificates"):
            if name in given:
                given[name] = given[name].lower()
        return cls(**given)

    def make_context(self) -> "SSLContext | None":
        """Load the certificates; None when TLS is off. Raises ``ConfigError``."""
        if self.mode == "disabled":
            return None
        if self.context is not None:
            return self.context
        import ssl  # loaded by those who use it: it costs more than all of the broker's start

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate = Path(self.certificate or "")
        try:
            password = self.key_password or ""  # else OpenSSL would ask at the terminal
            context.load_cert_chain(certificate, self.key, password)
        except (OSError, ValueError) as error:
            raise ConfigError(
                "tls certificate", str(certificate), f"a PEM chain and its key: {error}"
            ) from error
        if self.trusted is not None:
            try:
                context.load_verify_locations(self.trusted)
            except (OSError, ValueError) as error:
                raise ConfigError(
                    "tls trusted", str(self.trusted), f"a PEM file of authorities: {error}"
                ) from error
        context.verify_mode = {
            "none": ssl.CERT_NONE,
            "optional": ssl.CERT_OPTIONAL,
            "require": ssl.CERT_REQUIRED,
        }[self.client_certificates]
        return context


def _assignments(text: str, path: PathLike) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        try:
            yield from read_properties(line)
        except ConfigError:
            # Without what stands there: it may be half of a password.
            limit = "a line is name=value, such as tls.server.mode=enforcing"
            raise ConfigError("tls", f"{os.fspath(path)} line {number}", limit) from None


_NAMES: Final = {
    "tls.server.mode": "mode",
    "tls.server.certPath": "certificate",
    "tls.server.keyPath": "key",
    "tls.server.keyPassword": "key_password",
    "tls.server.need.client.auth": "client_certificates",
    "tls.server.trustCertPath": "trusted",
}
"""Names of `tls.properties`. ``tls.server.authClient`` has no meaning here: who asks for
certificates checks them."""
