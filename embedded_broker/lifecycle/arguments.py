"""Arguments of ``EmbeddedBroker(...)``: checks before the start; what one turns on for another.

Answers: which arguments fit together, what one turns on for another (``grpc=True`` allows topics
of mixed message types), that a port for other hosts must be wanted, and what is wrong with the
rest. Must not know: how a broker starts. Read on: ``embedded_broker/api/broker.py``.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from random import SystemRandom
from typing import TYPE_CHECKING, Literal, TypeAlias

from attrs import field, frozen

from embedded_broker.clocks.clock import BrokerClock, WallClock
from embedded_broker.core.administration import Settings
from embedded_broker.core.put_hooks import PutHooks
from embedded_broker.core.refusals import Refused
from embedded_broker.errors import StoreError
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.settings.grpc import (
    Certificates,
    GrpcOptions,
    checked_certificates,
    demand_grpc,
)
from embedded_broker.settings.profiles import Limits, Profile, find_limits, find_profile
from embedded_broker.settings.tls import Tls
from embedded_broker.tables.accounts.plain import PlainAccounts, PlainAcl
from embedded_broker.tables.accounts.users import AuthUser, UserAcl
from embedded_broker.tables.peer import is_loopback
from embedded_broker.tables.topics.attributes import BATCH_QUEUES, QUEUE_TYPE
from rocketmq_py.clock import Clock
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.json_text import loads
from rocketmq_py.protocol.names import topic_problem

if TYPE_CHECKING:
    import socket

    from embedded_broker.store.fs import FileSystem

ListenerFactory = Callable[[str, int], "socket.socket"]
"""``(host, port)`` to a bound, listening stream socket; port 0 asks for a free one."""

Acl = PlainAcl | UserAcl | str | os.PathLike[str]
"""Who may do what: of 4.9, of 5.3, or the path of a `plain_acl.yml`."""

DEFAULT_QUEUES = 4
QUEUES_MAX = 1024
PORT_MAX = 65_535
TOPICS_WANTED = "a list of names, or of TopicSpec(name, ...), or a dict of names and their queues"
MESSAGE_TYPES = ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")
QUEUE_TYPES = ("SimpleCQ", "BatchCQ")
QueueType = Literal["SimpleCQ", "BatchCQ"]
MessageType = Literal["UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"]


@frozen
class TopicSpec:
    """A topic to create: its queues (read and write), and two of its attributes.

    ``message_type`` is ``message.type``. ``queue_type`` is ``queue.type``: with ``BatchCQ`` a batch
    is stored as one record (RocketMQ 5). The type of its queues never changes.
    """

    name: str
    queues: int = DEFAULT_QUEUES
    message_type: MessageType | None = None
    queue_type: QueueType | None = None

    def check(self, profile: Profile, config: BrokerConfig) -> None:
        """Raise ``ConfigError`` for a name, queue count or type that a broker refuses."""
        problem = topic_problem(
            self.name,
            length_max=profile.topic_length_max,
            retry_length_max=profile.system_topic_length_max,
        )
        if problem is not None:
            raise ConfigError("topics", self.name, problem)
        if type(self.queues) is not int or not 1 <= self.queues <= QUEUES_MAX:
            limit = f"topic {self.name} can have an integer from 1 to {QUEUES_MAX}"
            raise ConfigError("queues", self.queues, limit)
        if self.message_type is not None and self.message_type not in MESSAGE_TYPES:
            raise ConfigError(
                "message_type", self.message_type, "one of " + ", ".join(MESSAGE_TYPES)
            )
        if self.queue_type is not None and self.queue_type not in QUEUE_TYPES:
            raise ConfigError("queue_type", self.queue_type, "one of " + ", ".join(QUEUE_TYPES))
        if self.queue_type == BATCH_QUEUES and not profile.topic_attributes:
            raise ConfigError("queue_type", self.queue_type, "possible only with rocketmq-5.x")
        if self.message_type == "MIXED" and not config.flag("enableMixedMessageType"):
            raise ConfigError(
                "message_type", self.message_type, "possible only with enableMixedMessageType=true"
            )

    def create(self, settings: Settings) -> None:
        """Create the topic, or change the one that exists; it was checked. Under the door.

        Raises ``StoreError`` while topics cannot be saved.
        """
        config = TopicConfig(
            topic_name=self.name, read_queue_nums=self.queues, write_queue_nums=self.queues
        )
        wanted = {"message.type": self.message_type, QUEUE_TYPE: self.queue_type}
        attributes = ",".join(f"+{name}={value}" for name, value in wanted.items() if value)
        try:
            settings.put_topic(config, attributes, by_owner=True)
        except Refused as error:
            raise StoreError(error.remark) from error


Topics: TypeAlias = Iterable[str | TopicSpec] | Mapping[str, int]
"""Topics to create: names or ``TopicSpec``, or the number of queues of each name."""


def topic_specs(topics: Topics) -> tuple[TopicSpec, ...]:
    """Read an argument ``topics``; ``ConfigError`` for what is none.

    Not checked is what depends on the broker: see `TopicSpec.check`.

    >>> topic_specs({"Orders": 6})
    (TopicSpec(name='Orders', queues=6, message_type=None, queue_type=None),)
    """
    if isinstance(topics, str):
        raise ConfigError("topics", topics, f"a list of names, such as [{topics!r}]")
    if not isinstance(topics, Iterable):
        raise ConfigError("topics", topics, TOPICS_WANTED)
    given = list(topics.items() if isinstance(topics, Mapping) else topics)
    specs: dict[str, TopicSpec] = {}
    for one in given:
        match one:
            case TopicSpec():
                spec = one
            case str():
                spec = TopicSpec(one)
            case (str() as name, queues) if isinstance(topics, Mapping):
                spec = TopicSpec(name, queues)
            case _:
                raise ConfigError("topics", topics, f"{TOPICS_WANTED}; {one!r} is none of them")
        if specs.setdefault(spec.name, spec) != spec:
            raise ConfigError("topics", topics, f"topic {spec.name} is there twice, and differs")
    return tuple(specs.values())


@frozen(kw_only=True)
class Arguments:
    """The checked arguments of one broker."""

    store: str | None
    clock: BrokerClock
    session_clock: BrokerClock
    profile: Profile
    limits: Limits
    levels: bool
    config: BrokerConfig
    cluster_name: str
    broker_name: str
    host: str
    namesrv_port: int
    broker_port: int
    tcp: bool
    inproc: bool
    topics: tuple[TopicSpec, ...]
    seed: int
    fs: "FileSystem | None"
    listener_factory: ListenerFactory | None
    accounts: PlainAccounts | None = None
    first_users: UserAcl = field(factory=UserAcl)
    tls: Tls | None = None
    grpc: GrpcOptions | None = None
    grpc_tls: Certificates | None = None
    put_hooks: PutHooks = field(factory=PutHooks)


def check_arguments(
    *,
    store: str | os.PathLike[str] | None,
    clock: Clock | None,
    session_clock: Clock | None,
    profile: str,
    limits: str,
    engine: str | None,
    levels: str,
    defaults: str,
    config: Mapping[str, object] | None,
    cluster_name: str,
    broker_name: str,
    host: str,
    namesrv_port: int,
    broker_port: int,
    tcp: bool,
    inproc: bool,
    topics: Topics,
    seed: int | None,
    allow_remote: bool,
    fs: "FileSystem | None",
    listener_factory: ListenerFactory | None,
    acl: Acl | None = None,
    tls: Tls | str | os.PathLike[str] | None = None,
    grpc: bool | GrpcOptions = False,
    grpc_tls: Tls | str | os.PathLike[str] | None = None,
) -> Arguments:
    """Return the arguments as a broker uses them; raise ``ConfigError`` for the first bad one."""
    found, limited = find_profile(profile), find_limits(limits)
    _check_host(host, allow_remote=allow_remote)
    _check_ports(namesrv_port, broker_port)
    _check_levels(levels)
    _check_names(cluster_name=cluster_name, broker_name=broker_name)
    secured = _checked_tls(tls)
    inproc = _has_way_inside(secured, tcp=tcp, inproc=inproc, listener_factory=listener_factory)
    if store is not None and fs is not None:
        raise ConfigError("fs", fs, "give either store or fs: both say where the bytes go")
    asked = _with_mixed_topics(_with_acl(_with_engine(config, engine), acl), grpc)
    presets = {**found.options, **limited.options}
    options = BrokerConfig(asked, defaults=defaults, presets=presets)
    _check_role(options, tcp=tcp)
    broker_clock = _as_broker_clock("clock", clock)
    return Arguments(
        store=checked_store(store),
        clock=broker_clock,
        session_clock=_as_session_clock(session_clock, clock, broker_clock),
        profile=found,
        limits=limited,
        levels=levels == "on",
        config=options,
        cluster_name=cluster_name,
        broker_name=broker_name,
        host="127.0.0.1" if host == "localhost" else host,
        namesrv_port=namesrv_port,
        broker_port=broker_port,
        tcp=tcp,
        inproc=inproc,
        topics=_specs(topics, found, options),
        seed=SystemRandom().randrange(1 << 32) if seed is None else seed,
        fs=fs,
        listener_factory=listener_factory,
        accounts=_accounts(options, acl, broker_clock),
        first_users=_first_users(options, acl),
        tls=secured,
        grpc=_grpc_options(grpc, grpc_tls),
        grpc_tls=checked_certificates(grpc_tls),
    )


def _grpc_options(given: bool | GrpcOptions, tls: object) -> GrpcOptions | None:
    """Read the argument ``grpc``; it is refused where the extra is not installed."""
    if given is False:
        if tls is not None:
            raise ConfigError("grpc_tls", tls, "possible only with grpc=True")
        return None
    if given is not True and not isinstance(given, GrpcOptions):
        raise ConfigError("grpc", given, "True, False or GrpcOptions(...)")
    demand_grpc()
    return GrpcOptions() if given is True else given


def _with_mixed_topics(options: dict[str, object], grpc: object) -> dict[str, object]:
    """Let topics be of the type MIXED where gRPC clients look at it."""
    if grpc is not False:
        options.setdefault("enableMixedMessageType", True)
    return options


def _check_role(options: BrokerConfig, *, tcp: bool) -> None:
    """Refuse a slave that could not be one, and a broker that could not deliver elsewhere."""
    if options.text("escapeNamesrvAddr"):
        if options.text("timerEngine") != "wheel":
            raise ConfigError("timerEngine", "sliced", "wheel, with escapeNamesrvAddr")
        if not tcp:
            raise ConfigError("tcp", tcp, "True, with escapeNamesrvAddr: it sends over TCP")
    if options.text("brokerRole") != "SLAVE":
        if options.int("brokerId"):
            limit = "0, the number of every master; brokerRole=SLAVE has others"
            raise ConfigError("brokerId", options.int("brokerId"), limit)
        return
    if not options.int("brokerId"):
        raise ConfigError("brokerId", 0, "1 or more, with brokerRole=SLAVE")
    if options.text("timerEngine") != "wheel":
        raise ConfigError("timerEngine", options.text("timerEngine"), "wheel, as a SLAVE")
    if not tcp:
        raise ConfigError("tcp", tcp, "True, with brokerRole=SLAVE: it follows over TCP")
    if not options.text("namesrvAddr"):
        limit = "host:port of the name server that knows the master, with brokerRole=SLAVE"
        raise ConfigError("namesrvAddr", "", limit)


def _check_levels(levels: str) -> None:
    if levels not in {"on", "off"}:
        raise ConfigError("levels", levels, "one of on, off")


def _check_names(**names: str) -> None:
    for setting, name in names.items():
        problem = topic_problem(name)
        if problem is not None:
            raise ConfigError(setting, name, problem.replace("topic", "name"))


def _has_way_inside(
    tls: Tls | None, *, tcp: bool, inproc: bool, listener_factory: ListenerFactory | None
) -> bool:
    """Say whether clients of this process have a way of their own, past TCP."""
    if not tcp and not inproc:
        raise ConfigError("inproc", inproc, "with tcp=False nobody could reach the broker")
    if not tcp and listener_factory is not None:
        raise ConfigError("listener_factory", listener_factory, "tcp=False has no listener")
    is_enforced = tls is not None and tls.mode == "enforcing"
    if not tcp and is_enforced:
        raise ConfigError("tcp", tcp, "True, with enforced TLS: every client speaks it over TCP")
    return inproc and not is_enforced


def _specs(topics: Topics, profile: Profile, config: BrokerConfig) -> tuple[TopicSpec, ...]:
    specs = topic_specs(topics)
    for spec in specs:
        spec.check(profile, config)
    return specs


def _with_engine(config: Mapping[str, object] | None, engine: str | None) -> dict[str, object]:
    """Add the argument ``engine`` to the options; it is the option ``timerEngine``."""
    options = dict(config or {})
    if engine is not None:
        asked = options.setdefault("timerEngine", engine)
        if asked != engine:
            raise ConfigError("engine", engine, f"timerEngine in config is {asked}")
    return options


def _with_acl(options: dict[str, object], acl: Acl | None) -> dict[str, object]:
    """Switch access control on for accounts or users that are given as an argument."""
    if isinstance(acl, UserAcl):
        options.setdefault("authenticationEnabled", True)
        options.setdefault("authorizationEnabled", True)
    elif acl is not None and str(options.setdefault("aclEnable", True)).lower() != "true":
        raise ConfigError("aclEnable", options["aclEnable"], "accounts are given: acl=... needs it")
    return options


def _first_users(config: BrokerConfig, acl: Acl | None) -> UserAcl:
    """Give the users of ACL 2 that are to be there from the start."""
    given = acl if isinstance(acl, UserAcl) else UserAcl()
    found = [
        _super_user(name, config.text(name), fields)
        for name, fields in (
            ("initAuthenticationUser", ("username", "password")),
            ("innerClientAuthenticationCredentials", ("accessKey", "secretKey")),
        )
        if config.text(name)
    ]
    return UserAcl(users=(*given.users, *found), policies=given.policies)


def _super_user(option: str, text: str, fields: tuple[str, str]) -> AuthUser:
    try:
        document = loads(text.encode())
    except ValueError:
        document = None
    given = [document.get(name) for name in fields] if isinstance(document, dict) else []
    texts = [one for one in given if isinstance(one, str) and one]
    if len(texts) != len(fields):
        raise ConfigError(option, "***", f"a JSON object with the texts {' and '.join(fields)}")
    username, password = texts
    return AuthUser(username=username, password=password, superuser=True)


def _accounts(config: BrokerConfig, acl: Acl | None, clock: Clock) -> PlainAccounts | None:
    """Give the accounts of ACL 1; None when it is off."""
    if not config.flag("aclEnable"):
        return None
    file = config.text("plainAclFile")
    if isinstance(acl, UserAcl):
        acl = None
    if acl is None and not file:
        limit = "name the accounts: plainAclFile=... for a file, or acl=... of EmbeddedBroker"
        raise ConfigError("aclEnable", True, limit)
    return PlainAccounts.of(acl or file, clock)


def _checked_tls(given: Tls | str | os.PathLike[str] | None) -> Tls | None:
    """Read the file of the argument ``tls``, and try the certificates."""
    tls = given if given is None or isinstance(given, Tls) else Tls.from_file(given)
    if tls is not None:
        tls.make_context()
    return tls


def checked_store(store: object) -> str | None:
    """Give the argument ``store`` as a path, None for memory; ``ConfigError`` for anything else."""
    if store is None:
        return None
    path = os.fspath(store) if isinstance(store, os.PathLike) else store
    if not isinstance(path, str) or not path:
        raise ConfigError("store", store, "the path of a directory, or None to stay in memory")
    return path


def _as_broker_clock(setting: str, clock: object) -> BrokerClock:
    if isinstance(clock, BrokerClock):
        return clock
    if isinstance(clock, type):
        wanted = f"a clock, not the class itself: {clock.__name__}()"
        raise ConfigError(setting, clock, wanted)
    if clock is not None and not isinstance(clock, Clock):
        raise ConfigError(setting, clock, "a clock such as VirtualClock(), or None for wall time")
    return WallClock(clock)


def _as_session_clock(given: object, clock: object, broker_clock: BrokerClock) -> BrokerClock:
    """Give the clock of sessions; the one that was given for messages, too, stays one."""
    return broker_clock if given is clock else _as_broker_clock("session_clock", given)


def _check_host(host: str, *, allow_remote: bool) -> None:
    if not is_loopback(host) and not allow_remote:
        raise ConfigError(
            "host",
            host,
            "use 127.0.0.1. Anybody who can reach an embedded broker can read, send and fill its "
            "store; pass allow_remote=True to accept that",
        )


def _check_ports(namesrv_port: int, broker_port: int) -> None:
    for setting, port in (("namesrv_port", namesrv_port), ("broker_port", broker_port)):
        if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= PORT_MAX:
            raise ConfigError(setting, port, f"0 (any free port) to {PORT_MAX}")
    if namesrv_port == broker_port != 0:
        raise ConfigError("broker_port", broker_port, "it must differ from namesrv_port")
