"""How a Python process of Spark gets its connections: one set per process and settings.

Workers are reused for many tasks and may die without a word, so connections are made when first
needed, kept for the next task, and never relied on. Credentials are read where they are used:
from the options, the environment, or a file that may change while a stream runs. Must not know
what is asked. Spark itself is only looked at for files that it carries (``SparkFiles``).
"""

import atexit
import os
import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rocketmq_py import (
    ClientConfig,
    ConfigError,
    Credentials,
    EnvironmentCredentials,
    FileCredentials,
    FlowControlError,
    MQBrokerException,
    MQClientException,
    NameServerUnavailableError,
    NoRouteError,
    RemotingException,
    RocketMQError,
    TlsConfig,
)
from rocketmq_py.raw import NamespacedQueueAccess, QueueAccess
from spark_connector.errors import OptionError
from spark_connector.options.connection import Connection, Tls
from spark_connector.options.read_options import ReadOptions
from spark_connector.options.write_options import WriteOptions
from spark_connector.servers.stderr_log import set_up

if TYPE_CHECKING:
    from ssl import SSLContext

SERVER_ERRORS = (RemotingException, MQBrokerException, MQClientException)
"""What asking a server can raise."""
OPEN_MOST = 16
BUSY_CODES = frozenset({2, 14, 215})
"""SYSTEM_BUSY, SERVICE_NOT_AVAILABLE, FLOW_CONTROL: refusals that are about now."""

_T = TypeVar("_T")


class _Process:
    """What this process has open, the one that was used longest ago first."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open: dict[Connection, QueueAccess] = {}


_process = _Process()


def access_for(connection: Connection) -> QueueAccess:
    """Return this process's connections for these settings, made when new. Thread-safe.

    The `OPEN_MOST` that were used last are kept. Raises `OptionError` for settings and files that
    cannot be used here.
    """
    set_up()
    oldest = None
    with _process.lock:
        access = _process.open.pop(connection, None)
        if access is None:
            access = _started(connection)
            if len(_process.open) >= OPEN_MOST:
                oldest = _process.open.pop(next(iter(_process.open)))
            # After the client's own farewell is registered, so that it runs before it.
            atexit.unregister(close_all)
            atexit.register(close_all)
        _process.open[connection] = access
    if oldest is not None:
        oldest.shutdown()
    return access


def _started(connection: Connection) -> QueueAccess:
    settings = _settings(connection)
    if connection.namespace:
        access: QueueAccess = NamespacedQueueAccess(connection.namespace, **settings)
    else:
        access = QueueAccess(**settings)
    access.start()
    return access


def close_all() -> None:
    """Close every connection of this process; what is needed later is opened again."""
    with _process.lock:
        mine = list(_process.open.values())
        _process.open.clear()
    for access in mine:
        access.shutdown()


def _forked() -> None:
    """Begin anew in a forked child: the client has closed what was inherited.

    The parent's lock may be held by a thread that does not exist here.
    """
    global _process
    _process = _Process()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def is_transient(error: BaseException) -> bool:
    """Whether asking again can help: a silent server, or a refusal that is about now."""
    if isinstance(error, MQBrokerException):
        return isinstance(error, FlowControlError) or error.response_code in BUSY_CODES
    if isinstance(error, NoRouteError):
        return False
    return isinstance(error, (RemotingException, MQClientException))


def retrying(options: ReadOptions | WriteOptions, what: str, ask: Callable[[], _T]) -> _T:
    """Ask up to ``fetchOffset.numRetries`` times more; then one error says what was asked."""
    attempt = 1
    while True:
        try:
            return ask()
        except SERVER_ERRORS as error:
            if not is_transient(error):
                error.add_note(f"This happened while {what}.")
                raise
            if attempt > options.fetch_offset_num_retries:
                raise given_up(options, what, attempt, error) from None
        attempt += 1
        threading.Event().wait(options.fetch_offset_retry_interval_ms / 1000)


def given_up(
    options: ReadOptions | WriteOptions, what: str, tries: int, last: RocketMQError
) -> MQClientException:
    """Make the error of a question that was asked so often: from whom, what, the last answer."""
    kind = MQClientException
    if isinstance(last, NameServerUnavailableError):
        kind = NameServerUnavailableError
    return kind(
        f"{what} failed after {tries} tries at name server {options.connection.name_server}, asked "
        f"from {socket.gethostname()}: {last}; check that this machine reaches the servers, or "
        "raise fetchOffset.numRetries"
    )


def _settings(connection: Connection) -> dict[str, Any]:  # Any: passed on as keyword settings
    settings: dict[str, Any] = dict(connection.settings)
    settings["namesrv_addr"] = connection.name_server
    settings["transport"] = "tcp"
    if connection.tls is not None:
        settings |= {"use_tls": True, "tls_config": _tls_context(connection.tls)}
    credentials = _credentials(connection)
    if credentials is not None:
        settings["credentials"] = credentials
    settings["address_mapper"] = AddressMap(connection.address_map)
    try:
        ClientConfig(**settings)
    except (TypeError, ValueError) as error:
        raise OptionError(f"a client setting is wrong: {error}") from None
    return settings


class AddressMap:
    """Says which address to connect to instead of one that a broker advertises."""

    setting = "the option addressMap"
    """What errors of the client call it."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._known = dict(pairs)

    def __call__(self, address: str) -> str:
        """Return the address to connect to."""
        return self._known.get(address, address)


# --- credentials ---------------------------------------------------------------------------------


def _credentials(connection: Connection) -> Credentials | Callable[[], Credentials] | None:
    if connection.access_key is not None and connection.secret_key is not None:
        token = connection.security_token
        return Credentials(
            connection.access_key,
            connection.secret_key.reveal(),
            None if token is None else token.reveal(),
        )
    if connection.credentials_env is not None:
        return _credentials_of_environment(connection.credentials_env)
    if connection.credentials_file is not None:
        return CredentialsFile(connection.credentials_file)
    return None


def _credentials_of_environment(prefix: str) -> Credentials:
    try:
        return EnvironmentCredentials(prefix)()
    except ConfigError as error:
        raise OptionError(
            f"no credentials: {error.limit}; credentialsEnv={prefix} reads {prefix}_ACCESS_KEY and "
            f"{prefix}_SECRET_KEY"
        ) from None


class CredentialsFile(FileCredentials):
    """The keys of a file that Spark carries, or of this machine; `OptionError` without any."""

    def __call__(self) -> Credentials:
        """Give what the file holds."""
        try:
            return super().__call__()
        except ConfigError as error:
            raise OptionError(f"credentialsFile {self.path}: {error.limit}") from None

    def _place(self) -> Path:
        return spark_file(str(self.path))


# --- files ---------------------------------------------------------------------------------------


def _tls_context(tls: Tls) -> "SSLContext":
    """Load the files of this machine; raises `OptionError` naming the option of a bad one."""
    named = (("tlsCa", tls.ca), ("tlsCert", tls.cert), ("tlsKey", tls.key))
    ca, cert, key = (name and _file_of(option, name) for option, name in named)
    try:
        return TlsConfig(ca_file=ca, cert_file=cert, key_file=key).make_context()
    except ConfigError as error:
        option = {"ca_file": "tlsCa", "cert_file": "tlsCert"}.get(error.setting, "tls")
        raise OptionError(f"option {option}: {error}") from None


def _file_of(option: str, name: str) -> Path:
    path = spark_file(name)
    if not path.is_file():
        raise OptionError(
            f"option {option} = {name!r}: there is no such file on {socket.gethostname()}; "
            "SparkContext.addFile brings one to every worker"
        )
    return path


def spark_file(name: str) -> Path:
    """Return a file that Spark carries (``addFile``), else the path as it is.

    The folder of a streaming query, and of a Connect session, lies within that of the context,
    which has the files that were added there.
    """
    try:
        from pyspark import SparkFiles

        root = Path(SparkFiles.getRootDirectory())
    except (ImportError, AssertionError, AttributeError, TypeError):
        return Path(name)  # no Spark, or no session in this process
    carried = (folder / name for folder in (root, root.parent))
    return next((path for path in carried if path.is_file()), Path(name))
