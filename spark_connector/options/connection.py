"""How the servers are reached: addresses, keys, TLS files, namespace and settings of the client.

`connection_of` checks the options that batch reads, streams and writes share; files are only named
here and looked for where they are used (``servers/access.py``), because they lie elsewhere on every
worker. Must not know topics. Pickles; secrets never show in its text.
"""

import difflib
import re
from typing import Any

from attrs import fields, frozen

from rocketmq_py import ClientConfig
from spark_connector.errors import OptionError
from spark_connector.options.parsing import CLIENT_PREFIX, Given, Secret

PORT_MOST = 65_535
NAMESPACE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_INSTEAD = {
    "credentials": "use accessKey and secretKey, credentialsEnv or credentialsFile",
    "addressmapper": "use addressMap",
    "transport": "it is always tcp here",
    "namesrvdomain": "use nameServer",
    "namesrvdomainsubgroup": "use nameServer",
    "maxdelay": "use maxDelayMs",
}
"""Client settings that have an option of their own."""


@frozen
class Tls:
    """Names of PEM files, None where not given: authorities, own certificate and its key."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None


@frozen
class Connection:
    """How to reach the servers. Two equal ones share their connections in a process."""

    name_server: str
    settings: tuple[tuple[str, object], ...] = ()
    address_map: tuple[tuple[str, str], ...] = ()
    access_key: str | None = None
    secret_key: Secret | None = None
    security_token: Secret | None = None
    credentials_env: str | None = None
    credentials_file: str | None = None
    namespace: str = ""
    tls: Tls | None = None


def connection_of(given: Given) -> Connection:
    """Check the options of the connection; raises `OptionError`, looks at no file or server."""
    if not given:
        raise OptionError(
            "no options at all: a table made by CREATE TABLE loses its options when it is read; "
            "use CREATE TEMPORARY VIEW ... USING rocketmq OPTIONS (...) instead"
        )
    namespace = given.value("namespace") or ""
    if namespace and not NAMESPACE.fullmatch(namespace):
        raise OptionError(
            f"option namespace = {namespace!r}: must be 1 to 64 letters, digits, _ and -"
        )
    return Connection(
        name_server=_name_server(given.value("nameServer")),
        settings=_settings(given.client_settings),
        address_map=_address_map(given.value("addressMap")),
        namespace=namespace,
        tls=_tls(given),
        **_keys(given),
    )


def _name_server(text: str | None) -> str:
    if text is None:
        raise OptionError("option nameServer is missing: host:port;host:port of the name servers")
    addresses = [one.strip() for one in text.split(";") if one.strip()]
    if not addresses or not all(is_address(one) for one in addresses):
        raise OptionError(f"option nameServer = {text!r}: must be host:port;host:port")
    return text


def is_address(text: str) -> bool:
    """Whether a text looks like ``host:port``."""
    host, _, port = text.rpartition(":")
    is_number = port.isascii() and port.isdigit()
    return bool(host) and is_number and int(port) <= PORT_MOST


def _keys(given: Given) -> dict[str, Any]:
    access_key, secret_key = given.value("accessKey"), given.secret("secretKey")
    token = given.secret("securityToken")
    env, file = given.value("credentialsEnv"), given.value("credentialsFile")
    if (access_key is None) != (secret_key is None):
        raise OptionError("options accessKey and secretKey belong together: one is missing")
    if token is not None and access_key is None:
        raise OptionError(
            "option securityToken belongs to accessKey and secretKey: they are missing"
        )
    if sum(one is not None for one in (access_key, env, file)) > 1:
        raise OptionError("give one of accessKey/secretKey, credentialsEnv and credentialsFile")
    return {
        "access_key": access_key,
        "secret_key": secret_key,
        "security_token": token,
        "credentials_env": env,
        "credentials_file": file,
    }


def _tls(given: Given) -> Tls | None:
    ca, cert, key = (given.value(name) for name in ("tlsCa", "tlsCert", "tlsKey"))
    named = [name for name in ("tlsCa", "tlsCert", "tlsKey") if given.value(name)]
    if not given.value("tls"):
        if named:
            raise OptionError(f"option {named[0]} needs tls=true")
        return None
    if (cert is None) != (key is None):
        raise OptionError("options tlsCert and tlsKey belong together: one is missing")
    return Tls(ca, cert, key)


def _address_map(text: str | None) -> tuple[tuple[str, str], ...]:
    pairs = []
    for item in (text or "").split(","):
        if not item.strip():
            continue
        advertised, _, reachable = (part.strip() for part in item.partition("="))
        if not is_address(advertised) or not is_address(reachable):
            raise OptionError(
                f"option addressMap: {item.strip()!r} is not advertised:port=reachable:port"
            )
        pairs.append((advertised, reachable))
    return tuple(pairs)


# --- settings of the client ----------------------------------------------------------------------


def _settings(given: dict[str, str]) -> tuple[tuple[str, object], ...]:
    """Check ``rocketmq.NAME`` options; names match without regard to case and underscores."""
    if not given:
        return ()
    usual = ClientConfig()
    known = {one.name.replace("_", ""): one.name for one in fields(ClientConfig)}
    settings: dict[str, Any] = {}  # of each setting's own type, which the client checks
    for name, text in given.items():
        plain = name.replace("_", "")
        if plain in _INSTEAD:
            raise OptionError(f"option {CLIENT_PREFIX}{name} is not taken: {_INSTEAD[plain]}")
        if plain not in known:
            near = difflib.get_close_matches(plain, known.keys() - _INSTEAD.keys(), n=1)
            hint = f": did you mean {CLIENT_PREFIX}{_in_camel(known[near[0]])}?" if near else ""
            raise OptionError(
                f"unknown option {CLIENT_PREFIX}{name}: the client has no such setting{hint}"
            )
        settings[known[plain]] = _value(text.strip(), getattr(usual, known[plain]))
    try:
        ClientConfig(**settings)
    except (TypeError, ValueError) as error:
        raise OptionError(f"a {CLIENT_PREFIX}NAME option is wrong: {error}") from None
    return tuple(sorted(settings.items()))


def _value(text: str, usual: object) -> object:
    """Bring a text to the type of a setting's usual value; what does not fit stays a text."""
    if isinstance(usual, bool):
        return {"true": True, "false": False}.get(text.lower(), text)
    if isinstance(usual, int) and text.isascii() and text.isdigit():
        return int(text)
    return text


def _in_camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
