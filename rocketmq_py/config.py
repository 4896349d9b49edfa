"""Which settings every client has, what they mean and what values they can take.

`ClientConfig` holds what producers and consumers share (client side of the original's
``ClientConfig`` and ``NettyClientConfig``); each client adds its own settings in its own room.
`Credentials` are the key pair that signs requests. Settings are plain values: they pickle, and
every assignment is checked. Must not know connections or clients; ``client/instance.py`` reads it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, TypedDict

from attrs import Attribute, define, evolve, field, fields, frozen, setters

from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.compression import BODY_SIZE_MAX

if TYPE_CHECKING:
    from ssl import SSLContext

NAMESRV_ADDR_VARIABLE = "NAMESRV_ADDR"
INSTANCE_NAME_DEFAULT = "DEFAULT"
UNLIMITED = -1
"""Of settings that are a limit: there is none."""

Transport = Literal["auto", "tcp"]
StartDeliverMode = Literal["auto", "always", "never"]
DelayConflict = Literal["warn", "error"]
PastDeliver = Literal["immediate", "error"]


@frozen(repr=False)
class Credentials:
    """The key pair (and token of a temporary account) that signs every request.

    Secrets never show up in ``repr``.

    >>> Credentials("id", "secret")
    Credentials(access_key='id', secret_key='***')
    """

    access_key: str
    secret_key: str
    security_token: str | None = None

    def __repr__(self) -> str:
        token = "" if self.security_token is None else ", security_token='***'"
        return f"Credentials(access_key={self.access_key!r}, secret_key='***'{token})"


CredentialsSource = Credentials | Callable[[], Credentials]
"""Credentials, or a function that returns the current ones (rotating tokens).

A function may have a method ``renew(refused: Credentials) -> bool``: it is called, from any thread,
when a server refused a call that was signed by those; True means that the function returns others
now, and the call is made once more.
"""


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


Validator: TypeAlias = "Callable[[Any, Attribute[Any], Any], None]"
"""What attrs calls with the settings, the setting and the value that it is to have."""


def within(low: int, high: int | None = None, *, unit: str = "") -> Validator:
    """Build a validator: an int from ``low`` to ``high`` (None: no upper limit) of a ``unit``."""
    kind = f"an int of {unit}" if unit else "an int"

    def check(_owner: object, setting: Attribute[int], value: int) -> None:
        limit = f"at least {low}" if high is None else f"{low} to {high}"
        if not isinstance(value, int) or isinstance(value, bool):
            raise ConfigError(setting.name, value, f"must be {kind}, {limit}")
        if value < low or (high is not None and value > high):
            raise ConfigError(setting.name, value, f"must be {limit} {unit}".rstrip())

    return check


def milliseconds(low: int, high: int | None = None) -> Validator:
    """Build a validator: a whole number of milliseconds, and the text says so."""
    return within(low, high, unit="milliseconds")


def unlimited_or(low: int, high: int | None = None, *, unit: str = "") -> Validator:
    """Build a validator: -1, or what `within` allows."""
    in_range = within(low, high, unit=unit)

    def check(owner: object, setting: Attribute[int], value: int) -> None:
        if value != UNLIMITED or isinstance(value, bool):
            in_range(owner, setting, value)

    return check


def must(limit: str, accepts: Callable[[Any], bool]) -> Validator:
    """Build a validator: what ``accepts`` says; ``limit`` says the same in words."""

    def check(_owner: object, setting: Attribute[Any], value: object) -> None:
        if not accepts(value):
            raise ConfigError(setting.name, value, f"must {limit}")

    return check


def member_of(kind: type) -> Validator:
    """Build a validator: a member of an enum."""
    return must(f"be a member of {kind.__name__}", lambda value: isinstance(value, kind))


def one_of(*choices: str) -> Validator:
    """Build a validator: one of the given words."""
    return must(f"be one of {', '.join(choices)}", lambda value: value in choices)


switch = must("be True or False", lambda value: isinstance(value, bool))
_positive = within(1, unit="bytes")
a_text = must("be a str", lambda value: isinstance(value, str))
_a_positive_span = must(
    "be None or a positive timedelta",
    lambda value: value is None or (isinstance(value, timedelta) and value > timedelta()),
)


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
        raise ConfigError(setting.name, value, "must be a str like 'host:port;host:port'")
    for address in split_addresses(value):
        try:
            split_host_port(address)
        except ConfigError:
            limit = "must look like 'host:port;host:port' with ports up to 65535"
            raise ConfigError(setting.name, value, limit) from None


def _credentials(_owner: object, setting: Attribute[Any], value: object) -> None:
    if value is not None and not isinstance(value, Credentials) and not callable(value):
        limit = "must be Credentials(access_key, secret_key), or a function that returns them"
        raise ConfigError(setting.name, type(value), limit)  # the value may hold a secret


def _within_total(owner: ClientConfig, setting: Attribute[int], value: int) -> None:
    _positive(owner, setting, value)
    total = owner.decompressed_total_max_bytes
    if value > total:
        limit = f"must not exceed decompressed_total_max_bytes ({total}): raise that first"
        raise ConfigError(setting.name, value, limit)


def _above_body(owner: ClientConfig, setting: Attribute[int], value: int) -> None:
    _positive(owner, setting, value)
    body = owner.decompressed_body_max_bytes
    if value < body:
        limit = f"must be at least decompressed_body_max_bytes ({body}): lower that first"
        raise ConfigError(setting.name, value, limit)


class Fixable:
    """Settings of which some cannot be assigned any more, because a client has read them."""

    __slots__ = ("_fixed",)  # no setting itself, so no field

    FIXED_BY_START: ClassVar[Mapping[str, str]] = {}
    """What only `start` reads, and what else can be done to change it."""

    def fix(self) -> None:
        """Refuse from now on to assign what `start` has read."""
        self._fixed = True

    def unfix(self) -> None:
        """Allow every assignment again."""
        self._fixed = False

    @property
    def is_fixed(self) -> bool:
        """Whether a client has read these settings."""
        return getattr(self, "_fixed", False)


def _not_fixed(owner: Fixable, setting: Attribute[Any], value: Any) -> Any:  # Any: of any setting
    advice = owner.FIXED_BY_START.get(setting.name)
    if advice is not None and owner.is_fixed and value != getattr(owner, setting.name):
        raise ConfigError(
            setting.name, value, f"start() has read this setting already: {advice or _EARLIER}"
        )
    return value


_EARLIER = "assign it before, or make a new client"

ON_ASSIGNMENT = [setters.convert, setters.validate, _not_fixed]
"""What is done to a value that is assigned to a setting."""


@define(kw_only=True, eq=False, on_setattr=ON_ASSIGNMENT)
class ClientConfig(Fixable):
    """Settings shared by every client; times are milliseconds unless the name says otherwise.

    Arguments
    ---------
    namesrv_addr
        ``host:port;host:port``; default: environment variable ``NAMESRV_ADDR``, read when the
        object is made. Empty is no error until the first lookup.
    client_ip, instance_name, unit_name
        Parts of the client id ``ip@instance[@unit]``. ``client_ip`` "" = this machine's address;
        ``instance_name`` ``DEFAULT`` becomes a name of its own for each client.
    unit_mode
        Marks messages and subscriptions of a unit deployment.
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
    pull_time_delay_millis_when_exception
        Pause of a consumer after a failed pull. In a test that lets a broker crash, 10 saves most
        of a second.
    send_latency_enable, start_detector_enable, detect_interval, detect_timeout
        Fault avoidance of producers: avoid slow and failing brokers, and probe them in background.
    decompressed_body_max_bytes, decompressed_total_max_bytes
        What compressed messages may become: one body, and all bodies together that the listeners
        of a consumer have at a time, or that one call returns. A message whose body becomes larger
        counts as failed: it comes again later as any other, perhaps to a member that takes it, and
        goes to the dead letters in the end. Cached messages stay compressed.
    vip_channel_enabled
        Send to the broker's port minus 2.
    credentials
        `Credentials`, or a function that returns the current ones; signs every request.
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
    translate_start_deliver_time
        ``auto`` and ``always``: a message that carries only ``__STARTDELIVERTIME`` is also given
        ``TIMER_DELIVER_MS``; ``never``: for vendor brokers that refuse it.
    delay_conflict
        Two kinds of delay on one message: ``warn`` once, or ``error``.
    max_delay
        Longest delay that this client sends; None = the broker decides.
    past_deliver
        A delivery time in the past: ``immediate``, or ``error``.
    strict_reserved
        Refuse messages whose delay was given by a reserved user property, as 5.x clients do.

    Every value is checked when set; a wrong one raises `ConfigError`, as does the assignment of one
    that `start` has read already (``FIXED_BY_START``).
    """

    FIXED_BY_START: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (
            *("namesrv_addr", "client_ip", "instance_name", "unit_name", "unit_mode"),
            *("poll_name_server_interval", "heartbeat_broker_interval"),
            *("persist_consumer_offset_interval", "mq_client_api_timeout", "connect_timeout"),
            *("channel_max_idle", "client_async_permits", "client_async_bytes"),
            "client_callback_executor_threads",
            *("send_latency_enable", "start_detector_enable", "detect_interval"),
            *("vip_channel_enabled", "credentials", "transport", "address_mapper"),
            *("use_tls", "tls_config"),
        ),
        "",
    )

    namesrv_addr: str = field(
        factory=lambda: os.environ.get(NAMESRV_ADDR_VARIABLE, ""), validator=_addresses
    )
    client_ip: str = field(default="", validator=a_text)
    instance_name: str = field(default=INSTANCE_NAME_DEFAULT, validator=a_text)
    unit_name: str = field(default="", validator=a_text)
    unit_mode: bool = field(default=False, validator=switch)
    poll_name_server_interval: int = field(default=30_000, validator=milliseconds(10))
    heartbeat_broker_interval: int = field(default=30_000, validator=milliseconds(10))
    persist_consumer_offset_interval: int = field(default=5_000, validator=milliseconds(10))
    mq_client_api_timeout: int = field(default=3_000, validator=milliseconds(1))
    connect_timeout: int = field(default=3_000, validator=milliseconds(1))
    channel_max_idle: int = field(default=120_000, validator=milliseconds(1))
    client_async_permits: int = field(default=65_535, validator=within(1))
    client_async_bytes: int = field(default=67_108_864, validator=within(1))
    client_callback_executor_threads: int = field(
        factory=lambda: os.cpu_count() or 1, validator=within(1, 1024)
    )
    pull_time_delay_millis_when_exception: int = field(default=1_000, validator=milliseconds(0))
    send_latency_enable: bool = field(default=False, validator=switch)
    start_detector_enable: bool = field(default=False, validator=switch)
    detect_interval: int = field(default=2_000, validator=milliseconds(1))
    detect_timeout: int = field(default=200, validator=milliseconds(1))
    decompressed_body_max_bytes: int = field(default=BODY_SIZE_MAX, validator=_within_total)
    decompressed_total_max_bytes: int = field(default=4 * BODY_SIZE_MAX, validator=_above_body)
    vip_channel_enabled: bool = field(default=False, validator=switch)
    credentials: CredentialsSource | None = field(default=None, validator=_credentials)
    transport: Transport = field(default="auto", validator=one_of("auto", "tcp"))
    use_tls: bool = field(default=False, validator=switch)
    tls_config: TlsConfig | SSLContext | None = None
    address_mapper: Callable[[str], str] | None = None
    translate_start_deliver_time: StartDeliverMode = field(
        default="auto", validator=one_of("auto", "always", "never")
    )
    delay_conflict: DelayConflict = field(default="warn", validator=one_of("warn", "error"))
    max_delay: timedelta | None = field(default=None, validator=_a_positive_span)
    past_deliver: PastDeliver = field(default="immediate", validator=one_of("immediate", "error"))
    strict_reserved: bool = field(default=False, validator=switch)

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

    def use_name_servers(self, addresses: str) -> None:
        """Assign `namesrv_addr`, also when `start` has read it: the client tells its instance."""
        was_fixed = self.is_fixed
        self.unfix()
        try:
            self.namesrv_addr = addresses
        finally:
            if was_fixed:
                self.fix()

    def copy(self) -> Self:
        """Return an equal, independent object; later changes of this one do not reach it."""
        return evolve(self)

    @classmethod
    def build(cls, base: ClientConfig | None, settings: Mapping[str, object]) -> Self:
        """Make settings of this class from ``base`` (None: the defaults) and keyword settings.

        ``base`` may be of a parent class. Unknown names raise `TypeError` with the nearest name.
        """
        known = {item.name for item in fields(cls)}
        for name in settings:
            if name not in known:
                raise TypeError(_unknown_setting(cls.__name__, name, known))
        values: dict[str, Any] = {}
        if base is not None:
            values = {f.name: getattr(base, f.name) for f in fields(type(base)) if f.name in known}
        values.update(settings)
        return cls(**values)


class ClientSettings(TypedDict, total=False):
    """The settings of `ClientConfig` as keyword arguments of a client."""

    namesrv_addr: str
    client_ip: str
    instance_name: str
    unit_name: str
    unit_mode: bool
    poll_name_server_interval: int
    heartbeat_broker_interval: int
    persist_consumer_offset_interval: int
    mq_client_api_timeout: int
    connect_timeout: int
    channel_max_idle: int
    client_async_permits: int
    client_async_bytes: int
    client_callback_executor_threads: int
    pull_time_delay_millis_when_exception: int
    send_latency_enable: bool
    start_detector_enable: bool
    detect_interval: int
    detect_timeout: int
    decompressed_body_max_bytes: int
    decompressed_total_max_bytes: int
    vip_channel_enabled: bool
    credentials: CredentialsSource | None
    transport: Transport
    use_tls: bool
    tls_config: TlsConfig | SSLContext | None
    address_mapper: Callable[[str], str] | None
    translate_start_deliver_time: StartDeliverMode
    delay_conflict: DelayConflict
    max_delay: timedelta | None
    past_deliver: PastDeliver
    strict_reserved: bool


class SettingAttributes:
    """Base of a client with settings as attributes (`attributes_of`): refuses misspelt ones.

    ``_attributes`` names what else may be assigned, ``_names`` which of these `start` reads. A
    subclass of a program may have attributes of its own, so its spelling is not watched.
    """

    _attributes: frozenset[str] = frozenset({"config"})
    _names: frozenset[str] = frozenset({"config", "producer_group", "consumer_group"})

    if not TYPE_CHECKING:  # a checker that saw this method would accept every name

        def __setattr__(self, name: str, value: object) -> None:
            kind = type(self)
            changes = name in self._names and self.__dict__.get(name, value) != value
            if changes and self.config.is_fixed:
                raise ConfigError(name, value, f"start() has read it already: {_EARLIER}")
            if (
                name.startswith("_")
                or name in self._attributes
                or hasattr(kind, name)
                or not kind.__module__.startswith("rocketmq_py.")
            ):
                object.__setattr__(self, name, value)
                return
            settings = {known for known in dir(kind) if _is_settable(getattr(kind, known))}
            raise AttributeError(
                _unknown_setting(kind.__name__, name, settings | self._attributes),
                name=name,
                obj=self,
            )


def _is_settable(member: object) -> bool:
    return isinstance(member, property) and member.fset is not None


def attributes_of(settings: type[ClientConfig]) -> type[SettingAttributes]:
    """Make the base of a client whose attributes are the settings in its ``config``.

    For a checker the base is the class of the settings itself, which has the types::

        if TYPE_CHECKING:
            Settings = ProducerConfig
        else:
            Settings = attributes_of(ProducerConfig)
    """
    attributes = {item.name: _attribute(item.name) for item in fields(settings)}
    return type(f"{settings.__name__}Attributes", (SettingAttributes,), attributes)


def _attribute(name: str) -> property:
    def assign(client: Any, value: object) -> None:  # Any: whatever class has `config`
        setattr(client.config, name, value)

    return property(attrgetter(f"config.{name}"), assign)


def _unknown_setting(owner: str, name: str, known: set[str]) -> str:
    import difflib  # only on the way to an error

    nearest = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return f"{owner} has no setting {name!r}{hint}"
