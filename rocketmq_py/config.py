"""Which settings every client has, what they mean and what values they can take.

`ClientConfig` holds what producers and consumers share (client side of the original's
``ClientConfig`` and ``NettyClientConfig``). Producers and consumers add theirs in a subclass in
their own room, and each client is a subclass of that: a client is its settings. Every setting
stands once, as a field with its type, its default and its check (`setting`), from which attrs
makes the signature; every assignment runs the check. `Credentials` are the key pair that signs
requests. Must not know connections or clients; ``client/instance.py`` reads it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache, wraps
from importlib import import_module
from inspect import cleandoc
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Literal,
    ParamSpec,
    TypeAlias,
    TypedDict,
    TypeVar,
    cast,
)
from urllib.parse import quote

from attrs import Attribute, define, field, frozen, setters

from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.compression import BODY_SIZE_MAX
from rocketmq_py.protocol.names import NOT_SENDABLE_TOPICS, TRACE_TOPIC, topic_problem
from rocketmq_py.spelling import Spelled

if TYPE_CHECKING:
    from ssl import SSLContext

_P = ParamSpec("_P")
_T = TypeVar("_T")

NAMESRV_ADDR_VARIABLE = "NAMESRV_ADDR"
DOMAIN_VARIABLE: Final = "ROCKETMQ_NAMESRV_DOMAIN"
SUBGROUP_VARIABLE: Final = "ROCKETMQ_NAMESRV_DOMAIN_SUBGROUP"
SUBGROUP_DEFAULT: Final = "nsaddr"
INSTANCE_NAME_DEFAULT = "DEFAULT"
UNLIMITED = -1
"""Of settings that are a limit: there is none."""

Transport = Literal["auto", "tcp"]
AccessChannel = Literal["LOCAL", "CLOUD"]


@frozen(repr=False)
class Credentials:
    """The key pair (and token of a temporary account) that signs every request.

    ``expires_at``: until when they count, if that is known. Secrets never show up in ``repr``.

    >>> Credentials("id", "secret")
    Credentials(access_key='id', secret_key='***')
    """

    access_key: str
    secret_key: str
    security_token: str | None = None
    expires_at: datetime | None = field(default=None, eq=False, kw_only=True)

    @expires_at.validator
    def _has_a_zone(self, setting: Attribute[datetime | None], value: datetime | None) -> None:
        if value is not None and (not isinstance(value, datetime) or value.tzinfo is None):
            raise ConfigError(setting.name, value, "must be None or a datetime with a time zone")

    def __repr__(self) -> str:
        token = "" if self.security_token is None else ", security_token='***'"
        return f"Credentials(access_key={self.access_key!r}, secret_key='***'{token})"


CredentialsSource = Credentials | Callable[[], Credentials]
"""Credentials, or a function that returns the current ones (rotating tokens).

When a server refuses a call, it is made once more if the function returns others now. It may have a
method ``renew(refused: Credentials) -> bool``, which is called first, from any thread that may
wait: True means that there are others. `CredentialsProvider` is the same as a protocol;
`EnvironmentCredentials`, `FileCredentials` and `RotatingCredentials` are made ones.
"""


def shown_source(source: object) -> str:
    """Show a source of credentials by its name: what a function is bound to may be a secret."""
    kind = type(source)
    if source is None or kind is Credentials or kind.__module__ == "rocketmq_py.client.credentials":
        return repr(source)
    return str(getattr(source, "__qualname__", kind.__qualname__))


@frozen(kw_only=True)
class TlsConfig:
    """Whom a client trusts, and the certificate that it shows; the names of PEM files.

    ``ca_file`` holds the authorities that sign the servers' certificates; without it those of this
    machine count. ``cert_file`` and ``key_file`` are the client's own chain and key, for servers
    that ask for them. A server's certificate must be for the host that it is called by, unless
    ``check_hostname`` is False. ``verify=False`` trusts everybody, as Java clients do by default.
    """

    ca_file: str | os.PathLike[str] | None = None
    cert_file: str | os.PathLike[str] | None = None
    key_file: str | os.PathLike[str] | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    verify: bool = True

    def make_context(self) -> SSLContext:
        """Load the files; raises `ConfigError` that names the bad one."""
        import ssl  # only for those who use it

        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ValueError) as error:
            raise ConfigError("ca_file", self.ca_file, f"must be a PEM file: {error}") from error
        context.check_hostname = self.check_hostname and self.verify
        if not self.verify:
            context.verify_mode = ssl.CERT_NONE
        if self.cert_file is not None:
            try:
                password = self.key_password or ""  # else OpenSSL would ask at the terminal
                context.load_cert_chain(self.cert_file, self.key_file, password)
            except (OSError, ValueError) as error:
                limit = f"must be a PEM chain, with its key there or in key_file: {error}"
                raise ConfigError("cert_file", self.cert_file, limit) from error
        return context


Check: TypeAlias = "Callable[[Any, Attribute[Any], Any], None]"
"""Is called with the client, the setting and the value that it is to have; raises `ConfigError`."""

_CHECK: Final = "rocketmq_py.check"
_MILLISECOND = timedelta(milliseconds=1)
_MINUTE = timedelta(minutes=1)


def setting(check: Check) -> dict[str, Check]:
    """Build the metadata that make a field a setting: how its values are checked."""
    return {_CHECK: check}


def in_milliseconds(value: int | timedelta) -> int:
    """Turn a timedelta into milliseconds; what is none, and a fraction, is left to the check."""
    converted: int = _in_units(value, _MILLISECOND)
    return converted


def in_minutes(value: int | timedelta) -> int:
    """Turn a timedelta into minutes; what is none, and a fraction, is left to the check."""
    converted: int = _in_units(value, _MINUTE)
    return converted


def _in_units(value: Any, unit: timedelta) -> Any:  # Any: what a program may assign
    if isinstance(value, timedelta) and not value % unit:
        return value // unit
    return value


def as_texts(texts: Iterable[str]) -> tuple[str, ...]:
    """Keep several texts; `TypeError` for a single one, whose letters would count as texts."""
    if isinstance(texts, str):
        raise TypeError(f"several texts are needed, such as [{texts!r}], not {texts!r}")
    return tuple(texts)


def within(low: int, high: int | None = None, *, unit: str = "") -> Check:
    """Build a check: an int from ``low`` to ``high`` (None: no upper limit) of a ``unit``."""
    kind = f"an int of {unit}" if unit else "an int"

    def check(_owner: object, setting: Attribute[int], value: int) -> None:
        limit = f"at least {low}" if high is None else f"{low} to {high}"
        if not isinstance(value, int) or isinstance(value, bool):
            raise ConfigError(setting.name, value, f"must be {kind}, {limit}")
        if value < low or (high is not None and value > high):
            raise ConfigError(setting.name, value, f"must be {limit} {unit}".rstrip())

    return check


def milliseconds(low: int, high: int | None = None) -> Check:
    """Build a check: a whole number of milliseconds, and the text says so."""
    return within(low, high, unit="milliseconds (or a timedelta of them)")


def unlimited_or(check: Check) -> Check:
    """Build a check: -1, or what ``check`` allows."""

    def either(owner: object, setting: Attribute[int], value: int) -> None:
        if value != UNLIMITED or isinstance(value, bool):
            check(owner, setting, value)

    return either


def must(limit: str, accepts: Callable[[Any], bool]) -> Check:
    """Build a check: what ``accepts`` says; ``limit`` says the same in words."""

    def check(_owner: object, setting: Attribute[Any], value: object) -> None:
        if not accepts(value):
            raise ConfigError(setting.name, value, f"must {limit}")

    return check


def member_of(kind: type) -> Check:
    """Build a check: a member of an enum."""
    return must(f"be a member of {kind.__name__}", lambda value: isinstance(value, kind))


def one_of(*choices: str) -> Check:
    """Build a check: one of the given words."""
    return must(f"be one of {', '.join(choices)}", lambda value: value in choices)


switch = must("be True or False", lambda value: isinstance(value, bool))
_positive = within(1, unit="bytes")
a_text = must("be a str", lambda value: isinstance(value, str))
a_sendable_topic = must(
    "be the name of a topic that takes messages",
    lambda value: (
        isinstance(value, str) and topic_problem(value) is None and value not in NOT_SENDABLE_TOPICS
    ),
)
_NAMESPACE_LENGTH_MAX: Final = 64
_a_namespace = must(
    f"be empty, or up to {_NAMESPACE_LENGTH_MAX} letters, digits, _, - and |",
    lambda value: (
        isinstance(value, str)
        and (not value or topic_problem(value, length_max=_NAMESPACE_LENGTH_MAX) is None)
        and "%" not in value
    ),
)
_a_mapper = must(
    "be None or a function (address) -> address", lambda value: value is None or callable(value)
)


def joined_addresses(addresses: str | Sequence[str]) -> str:
    """Join several addresses with semicolons; what is no list of texts is left to the check.

    >>> joined_addresses(["a:9876", "b:9876"])
    'a:9876;b:9876'
    """
    given: Any = addresses  # Any: what a program may assign
    if isinstance(given, list | tuple) and given and all(isinstance(one, str) for one in given):
        return ";".join(given)
    return cast("str", given)


def split_addresses(text: str) -> tuple[str, ...]:
    """Split ``host:port;host:port``; a leading ``http://`` (ONS habit) is dropped."""
    addresses = []
    for part in text.split(";"):
        address = part.strip().removeprefix("http://").rstrip("/")
        if address:
            addresses.append(address)
    return tuple(addresses)


def split_host_port(address: str) -> tuple[str, int]:
    """Split ``host:port`` (``[v6]:port`` too); `ConfigError` when it is not one."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ConfigError("address", address, "must be host:port with a port up to 65535")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _addresses(_owner: object, setting: Attribute[str], value: object) -> None:
    if not isinstance(value, str):
        limit = "must be a str like 'host:port;host:port', or a list of such"
        raise ConfigError(setting.name, value, limit)
    for address in split_addresses(value):
        try:
            split_host_port(address)
        except ConfigError:
            limit = "must look like 'host:port;host:port' with ports up to 65535"
            raise ConfigError(setting.name, value, limit) from None


_DOMAIN: Final = re.compile(
    r"(?:(?P<scheme>https?)://)?(?P<host>[\w.-]+|\[[0-9A-Fa-f:.]+\])(?P<port>:\d{1,5})?"
    r"(?P<path>/[\w.~%/-]*)?",
    re.ASCII,
)
DOMAIN_PORT: Final = ":8080"


def _a_domain(owner: ClientConfig, setting: Attribute[str], value: object) -> None:
    found = _DOMAIN.fullmatch(value) if isinstance(value, str) else None
    if value != "" and (found is None or int((found["port"] or ":1")[1:]) not in range(1, 65536)):
        limit = "must be host, host:port or http(s)://host:port/path, with a port up to 65535"
        raise ConfigError(setting.name, value, limit)
    subgroup = getattr(owner, "namesrv_domain_subgroup", SUBGROUP_DEFAULT)  # of a new one: later
    _one_path(found, setting, value, subgroup)


def _a_subgroup(owner: ClientConfig, setting: Attribute[str], value: object) -> None:
    if not isinstance(value, str) or not re.fullmatch(r"[\w.-]+", value, re.ASCII):
        raise ConfigError(setting.name, value, "must be letters, digits, _, - and .")
    _one_path(_DOMAIN.fullmatch(owner.namesrv_domain), setting, value, value)


def _one_path(
    domain: re.Match[str] | None, setting: Attribute[str], value: object, subgroup: str
) -> None:
    """Refuse two paths: that of a whole address, and the one that a subgroup makes."""
    if domain is not None and domain["path"] and subgroup != SUBGROUP_DEFAULT:
        limit = (
            f"goes with no other one: namesrv_domain has the path {domain['path']}, "
            f"namesrv_domain_subgroup = {subgroup!r} would be another"
        )
        raise ConfigError(setting.name, value, limit)


def lookup_address(config: ClientConfig) -> str:
    """Give where name servers are asked for, as Java's clients make it; "" without a domain.

    >>> lookup_address(ClientConfig(namesrv_domain="mq.example", unit_name="east"))
    'http://mq.example:8080/rocketmq/nsaddr-east?nofix=1'
    """
    found = _DOMAIN.fullmatch(config.namesrv_domain)
    if found is None:
        return ""
    # A whole address, as ONS has it, has the port of its scheme.
    port = found["port"] or ("" if found["scheme"] else DOMAIN_PORT)
    path = (found["path"] or "").rstrip("/") or f"/rocketmq/{config.namesrv_domain_subgroup}"
    unit = f"-{quote(config.unit_name, safe='')}?nofix=1" if config.unit_name else ""
    return f"{found['scheme'] or 'http'}://{found['host']}{port}{path}{unit}"


def shown_name_servers(config: ClientConfig) -> str:
    """Give what an error says of the name servers: their addresses, or where these come from."""
    return config.namesrv_addr or lookup_address(config)


def _credentials(_owner: object, setting: Attribute[Any], value: object) -> None:
    if value is not None and not isinstance(value, Credentials) and not callable(value):
        limit = "must be Credentials(access_key, secret_key), or a function that returns them"
        raise ConfigError(setting.name, type(value), limit)  # the value may hold a secret


def _tls(_owner: object, setting: Attribute[Any], value: object) -> None:
    if value is None or isinstance(value, TlsConfig):
        return
    from ssl import SSLContext  # only for those who use it

    if not isinstance(value, SSLContext):
        raise ConfigError(setting.name, value, "must be None, a TlsConfig or an ssl.SSLContext")


def _within_total(owner: ClientConfig, setting: Attribute[int], value: int) -> None:
    _positive(owner, setting, value)
    total = getattr(owner, "decompressed_total_max_bytes", value)  # of a new one: set later
    if value > total:
        limit = f"must not exceed decompressed_total_max_bytes ({total}): raise that first"
        raise ConfigError(setting.name, value, limit)


def _above_body(owner: ClientConfig, setting: Attribute[int], value: int) -> None:
    _positive(owner, setting, value)
    body = owner.decompressed_body_max_bytes
    if value < body:
        limit = f"must be at least decompressed_body_max_bytes ({body}): lower that first"
        raise ConfigError(setting.name, value, limit)


class Checked(Spelled):
    """Base of settings and clients: what is assigned is converted and checked, a new one too.

    What a client's `start` has read (``FIXED_BY_START``) cannot be assigned any more, and a
    misspelt name is refused with the nearest one. A subclass of a program may have attributes of
    its own, so its spelling is not watched.
    """

    __slots__ = ("_fixed",)  # no setting itself, so no field

    FIXED_BY_START: ClassVar[Mapping[str, str]] = {}
    """What only `start` reads, and what else can be done to change it."""

    _CLOSED: ClassVar[bool] = False
    """Whether a class of another package has no attributes but those that are written there."""

    def _fix(self, *, fixed: bool = True) -> None:
        """Refuse from now on to assign what `start` has read, or allow it again."""
        self._fixed = fixed

    def _assign(self, name: str, value: object) -> None:
        """Assign a setting, also when `start` has read it: the caller sees to what comes of it."""
        was_fixed = getattr(self, "_fixed", False)
        self._fix(fixed=False)
        try:
            setattr(self, name, value)
        finally:
            self._fix(fixed=was_fixed)

    if not TYPE_CHECKING:  # a checker that saw this method would accept every name

        def __setattr__(self, name: str, value: object) -> None:
            kind = type(self)
            known = _fields_of(kind).get(name)
            if known is not None:
                value = _checked(self, known, value)
            elif not (
                name.startswith("_")
                or hasattr(kind, name)
                or "__attrs_attrs__" not in vars(kind)
                or not (self._CLOSED or kind.__module__.startswith("rocketmq_py."))
            ):
                raise AttributeError(_unknown_attribute(kind, name), name=name, obj=self)
            object.__setattr__(self, name, value)


def _checked(owner: Checked, known: Attribute[Any], value: Any) -> Any:  # Any: of any setting
    convert: Any = known.converter
    if convert is not None:
        value = convert(value)
    check = known.metadata.get(_CHECK)
    if check is not None:
        check(owner, known, value)
    advice = owner.FIXED_BY_START.get(known.name)
    if (
        advice is not None
        and getattr(owner, "_fixed", False)
        and value != getattr(owner, known.name)
    ):
        advice = advice or "assign it before, or make a new client"
        limit = f"start() has read this setting already: {advice}"
        raise ConfigError(known.name, value, limit)
    return value


@lru_cache
def _fields_of(kind: Any) -> dict[str, Attribute[Any]]:
    return {item.name: item for item in getattr(kind, "__attrs_attrs__", ())}


def _arguments_of(kind: Any) -> set[str]:
    return {str(item.alias) for item in _fields_of(kind).values() if item.init}


def settings_of(kind: Any) -> tuple[str, ...]:  # Any: mypy takes no class for hashable
    """Give the names of the settings that values, or clients, of a class have."""
    return tuple(name for name, item in _fields_of(kind).items() if _CHECK in item.metadata)


def explained(kind: type[_T]) -> type[_T]:
    """Decorate a class of settings: an unknown argument is refused with the nearest name.

    The class's text gets the settings of its bases, so that ``help`` shows all in one place.
    """
    made: Any = kind  # mypy takes no class for hashable
    make = made.__init__
    known = _arguments_of(made)
    places = [
        str(item.alias) for item in _fields_of(made).values() if item.init and not item.kw_only
    ]

    @wraps(make)
    def init(self: Any, *args: Any, **settings: Any) -> None:  # Any: as attrs' own
        if len(args) > len(places):
            raise TypeError(_too_many(type(self), places, len(args)))
        for name in settings:
            if name not in known:
                raise TypeError(_unknown_setting(type(self), name, known))
        make(self, *args, **settings)

    made.__init__ = init
    text, inherited = kind.__doc__, kind.__mro__[1].__doc__
    if text and inherited and kind.__mro__[1] is not Checked:  # no text: python -OO
        kind.__doc__ = f"{cleandoc(text)}\n\n{cleandoc(inherited)}"
    return kind


@explained
@define(kw_only=True, eq=False, on_setattr=setters.NO_OP)
class ClientConfig(Checked):
    """Settings of every client; times are milliseconds, or a timedelta.

    Arguments
    ---------
    namesrv_addr
        ``host:port;host:port``, or a list of them; default: environment variable ``NAMESRV_ADDR``,
        read when the object is made. Empty is no error until the first lookup.
    namesrv_domain, namesrv_domain_subgroup
        Where name servers are asked for over HTTP while ``namesrv_addr`` is empty, at the start
        and every 2 minutes: ``host`` (port 8080) or ``host:port``, whose path is then
        ``/rocketmq/`` and the subgroup (``nsaddr``); or a whole address with ``http://`` or
        ``https://``. With a ``unit_name`` the path ends in ``-unit?nofix=1``. The answer is one
        line, ``host:port;host:port``. Default: environment variables ``ROCKETMQ_NAMESRV_DOMAIN``
        and ``ROCKETMQ_NAMESRV_DOMAIN_SUBGROUP``. Empty: nobody is asked.
    client_ip, instance_name, unit_name
        Parts of the client id ``ip@instance[@unit]``. ``client_ip`` "" = this machine's address;
        ``instance_name`` ``DEFAULT`` becomes a name of its own for each client.
    unit_mode
        Marks sends, messages that are sent back, and subscriptions as those of a unit deployment
        (False): brokers mark the topics that they create for them.
    namespace
        Instance of a vendor's cloud (namespace v1): servers see ``namespace%topic``, and so for
        groups, the program only its own names. Names of RocketMQ itself stay as they are, among
        them topics that end in ``_REPLY_TOPIC``. Letters, digits, ``_``, ``-`` and ``|``.
    namespace_v2
        Namespace of 5.x: names stay as they are, and it goes along with each request.
    poll_name_server_interval, heartbeat_broker_interval, persist_consumer_offset_interval
        Periods of the background tasks; first runs after 10 ms, 1 s and 10 s.
    mq_client_api_timeout
        Budget of a control call (route, offset, administration).
    connect_timeout, channel_max_idle
        Budget of a TCP connect; a connection that was not used for so long is closed.
    client_async_permits, client_async_bytes
        Calls, and bytes of their bodies, that may be in flight on one connection; one call more
        is refused. The bytes of calls that somebody waits for are not counted, nor small bodies.
    client_callback_executor_threads
        Threads that run code of the application: callbacks of sends, and hooks after an answer.
        More are started while all of them are blocked, so that a slow callback delays no other.
    decompressed_body_max_bytes, decompressed_total_max_bytes
        What compressed messages may become: one body, and all bodies together that the listeners
        of a consumer have at a time, or that one call returns. A message whose body becomes larger
        counts as failed: it comes again later as any other, perhaps to a member that takes it, and
        goes to the dead letters in the end. Cached messages stay compressed.
    vip_channel_enabled
        Sends go to the broker's port minus 2, the fast port of 4.x (False); so do messages that a
        consumer sends back, and ends of transactions. All other requests go to its port.
    credentials
        `Credentials`, or a function that returns the current ones (`EnvironmentCredentials`,
        `FileCredentials`, `RotatingCredentials`); signs every request.
    transport
        ``auto``: a server of this process is called directly, others by TCP; ``tcp``: always TCP.
    use_tls, tls_config
        Connections are made by TCP with TLS, also to a server of this process. ``tls_config``: a
        `TlsConfig`, or an ``ssl.SSLContext`` of your own; None trusts the authorities of this
        machine.
    address_mapper
        Called with each broker address of a route, returns the address to use: for brokers that
        announce an address which cannot be reached from here (containers). Errors advise to set it
        under the name that its attribute ``setting`` has, if there is one.

    Every value is checked when set; a wrong one raises `ConfigError`, as does the assignment of one
    that `start` has read already (``FIXED_BY_START``).
    """

    FIXED_BY_START: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (
            *("namesrv_addr", "namesrv_domain", "namesrv_domain_subgroup"),
            *("client_ip", "instance_name", "unit_name", "unit_mode"),
            *("namespace", "namespace_v2"),
            *("poll_name_server_interval", "heartbeat_broker_interval"),
            *("persist_consumer_offset_interval", "mq_client_api_timeout", "connect_timeout"),
            *("channel_max_idle", "client_async_permits", "client_async_bytes"),
            "client_callback_executor_threads",
            *("vip_channel_enabled", "credentials", "transport", "address_mapper"),
            *("use_tls", "tls_config"),
        ),
        "",
    )

    namesrv_addr: str = field(
        factory=lambda: os.environ.get(NAMESRV_ADDR_VARIABLE, ""),
        converter=joined_addresses,
        metadata=setting(_addresses),
    )
    namesrv_domain: str = field(
        factory=lambda: os.environ.get(DOMAIN_VARIABLE, ""), metadata=setting(_a_domain)
    )
    namesrv_domain_subgroup: str = field(
        factory=lambda: os.environ.get(SUBGROUP_VARIABLE) or SUBGROUP_DEFAULT,
        metadata=setting(_a_subgroup),
    )
    client_ip: str = field(default="", metadata=setting(a_text))
    instance_name: str = field(default=INSTANCE_NAME_DEFAULT, metadata=setting(a_text))
    unit_name: str = field(default="", metadata=setting(a_text))
    unit_mode: bool = field(default=False, metadata=setting(switch))
    namespace: str = field(default="", metadata=setting(_a_namespace))
    namespace_v2: str = field(default="", metadata=setting(_a_namespace))
    poll_name_server_interval: int = field(
        default=30_000, converter=in_milliseconds, metadata=setting(milliseconds(10))
    )
    heartbeat_broker_interval: int = field(
        default=30_000, converter=in_milliseconds, metadata=setting(milliseconds(10))
    )
    persist_consumer_offset_interval: int = field(
        default=5_000, converter=in_milliseconds, metadata=setting(milliseconds(10))
    )
    mq_client_api_timeout: int = field(
        default=3_000, converter=in_milliseconds, metadata=setting(milliseconds(1))
    )
    connect_timeout: int = field(
        default=3_000, converter=in_milliseconds, metadata=setting(milliseconds(1))
    )
    channel_max_idle: int = field(
        default=120_000, converter=in_milliseconds, metadata=setting(milliseconds(1))
    )
    client_async_permits: int = field(default=65_535, metadata=setting(within(1)))
    client_async_bytes: int = field(default=67_108_864, metadata=setting(within(1)))
    client_callback_executor_threads: int = field(
        factory=lambda: os.cpu_count() or 1, metadata=setting(within(1, 1024))
    )
    decompressed_body_max_bytes: int = field(default=BODY_SIZE_MAX, metadata=setting(_within_total))
    decompressed_total_max_bytes: int = field(
        default=4 * BODY_SIZE_MAX, metadata=setting(_above_body)
    )
    vip_channel_enabled: bool = field(default=False, metadata=setting(switch))
    credentials: CredentialsSource | None = field(
        default=None, repr=shown_source, metadata=setting(_credentials)
    )
    transport: Transport = field(default="auto", metadata=setting(one_of("auto", "tcp")))
    use_tls: bool = field(default=False, metadata=setting(switch))
    tls_config: TlsConfig | SSLContext | None = field(default=None, metadata=setting(_tls))
    address_mapper: Callable[[str], str] | None = field(default=None, metadata=setting(_a_mapper))

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The addresses of ``namesrv_addr``, cleaned, in order."""
        return split_addresses(self.namesrv_addr)

    def make_tls(self) -> SSLContext | None:
        """Load the files of ``tls_config``; None without ``use_tls``. Raises `ConfigError`."""
        given = self.tls_config
        if not self.use_tls:
            if given is not None:
                raise ConfigError("use_tls", False, "must be True: there is a tls_config")
            return None
        if given is None:
            given = TlsConfig()
        return given.make_context() if isinstance(given, TlsConfig) else given

    @classmethod
    def of(
        cls: Callable[_P, _T], config: ClientConfig, /, *args: _P.args, **changes: _P.kwargs
    ) -> _T:
        """Make one whose settings begin with those of ``config``; further arguments as usual.

        ``config`` is a `ClientConfig`, for a producer also a `ProducerConfig` or another producer,
        for a consumer a `PushConsumerConfig` or another consumer. The other way round it makes
        the value of a client: ``ProducerConfig.of(producer)`` can be changed, copied and pickled.
        `TypeError` for a ``config`` whose settings this class does not have.

        >>> ClientConfig.of(ClientConfig(unit_name="a"), client_ip="10.0.0.1").unit_name
        'a'
        """
        made: Any = cls
        mine, theirs = set(settings_of(made)), set(settings_of(type(config)))
        if not theirs or not (theirs <= mine or mine <= theirs):
            other, kind = type(config).__name__, made.__name__
            raise TypeError(
                f"{kind}.of() cannot begin with a {other}, whose settings are others: "
                "ClientConfig.of(...) of it has those that all clients share"
            )
        shared: Any = {name: getattr(config, name) for name in mine & theirs}
        return cls(*args, **{**shared, **changes})


@explained
@define(kw_only=True, eq=False, on_setattr=setters.NO_OP)
class TracedConfig(ClientConfig):
    """Settings of clients that can note the way of their messages.

    Arguments
    ---------
    enable_trace
        Note the way of each message in a trace topic: see `rocketmq_py.trace`. It never delays
        or fails anything: without room (2,048 records) or a broker, records are dropped and told.
    trace_topic, access_channel
        Where it goes; the topic must exist, or the broker create it. ``CLOUD``: to the topic
        ``rmq_sys_TRACE_DATA_<region>`` of a vendor's brokers.
    """

    FIXED_BY_START: ClassVar[Mapping[str, str]] = {
        **ClientConfig.FIXED_BY_START,
        "enable_trace": "",
        "trace_topic": "",
        "access_channel": "",
    }

    enable_trace: bool = field(default=False, metadata=setting(switch))
    trace_topic: str = field(default=TRACE_TOPIC, metadata=setting(a_sendable_topic))
    access_channel: AccessChannel = field(
        default="LOCAL", metadata=setting(one_of("LOCAL", "CLOUD"))
    )


class ClientSettings(TypedDict, total=False):
    """The settings of `ClientConfig` as keyword arguments of a client that only makes calls."""

    namesrv_addr: str | Sequence[str]
    namesrv_domain: str
    namesrv_domain_subgroup: str
    client_ip: str
    instance_name: str
    unit_name: str
    unit_mode: bool
    namespace: str
    namespace_v2: str
    poll_name_server_interval: int | timedelta
    heartbeat_broker_interval: int | timedelta
    persist_consumer_offset_interval: int | timedelta
    mq_client_api_timeout: int | timedelta
    connect_timeout: int | timedelta
    channel_max_idle: int | timedelta
    client_async_permits: int
    client_async_bytes: int
    client_callback_executor_threads: int
    decompressed_body_max_bytes: int
    decompressed_total_max_bytes: int
    vip_channel_enabled: bool
    credentials: CredentialsSource | None
    transport: Transport
    use_tls: bool
    tls_config: TlsConfig | SSLContext | None
    address_mapper: Callable[[str], str] | None


def _too_many(kind: type, places: list[str], given: int) -> str:
    """Say which arguments have a place, and that the others have a name."""
    own = f"({', '.join(places)})" if places else "nothing"
    return (
        f"{kind.__name__} takes {own} by position, not {given} arguments: settings are keywords, "
        "such as namesrv_addr="
    )


def _unknown_attribute(kind: type, name: str) -> str:
    """Say that a name cannot be assigned, or that only a new client takes it."""
    if name in _arguments_of(kind):
        return f"{kind.__name__} takes {name} when it is made: make a new one"
    known = {each for each in _fields_of(kind) if not each.startswith("_")}
    return _unknown_setting(kind, name, known)


_OWNERS: Final = (
    ("ProducerConfig", "P", "producers"),
    ("ConsumerConfig", "C", "consumers"),
    ("PushConsumerConfig", "C", "push consumers"),
)
"""Whose settings are where; of each side the first that has a name is told."""


def _unknown_setting(kind: type, name: str, known: set[str]) -> str:
    """Say that there is no such setting, who has it, or what was meant perhaps."""
    import difflib  # only on the way to an error

    public = import_module("rocketmq_py")
    owners: dict[str, str] = {}
    for value, side, owner in _OWNERS:
        if name in settings_of(getattr(public, value)):
            owners.setdefault(side, owner)
    if owners:
        told = " and ".join(owners.values())
        return f"{kind.__name__} has no setting {name!r}: it is one of {told}"
    nearest = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return f"{kind.__name__} has no setting {name!r}{hint}"
