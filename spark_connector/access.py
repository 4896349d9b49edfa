"""How a Python process of Spark gets its connections: one set per process and settings.

Workers are reused for many tasks and may die without a word, so connections are made when first
needed, kept for the next task, and never relied on. Credentials are read where they are used:
from the options, the environment, or a file that may change while a stream runs. Must not know
what is asked. Spark itself is only looked at for files that it carries (``SparkFiles``).
"""

from __future__ import annotations

import atexit
import json
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from rocketmq_py import (
    ClientConfig,
    Credentials,
    MQBrokerException,
    MQClientException,
    NoRouteError,
    QueueAccess,
    RemotingException,
)
from spark_connector.errors import OptionError
from spark_connector.options import Connection, ReadOptions

__all__ = ["access_for", "is_transient", "retrying"]

OPEN_MOST = 16
BUSY_CODES = frozenset({2, 14, 215})
"""SYSTEM_BUSY, SERVICE_NOT_AVAILABLE, FLOW_CONTROL: refusals that are about now."""

_T = TypeVar("_T")
_lock = threading.Lock()
_open: dict[tuple[int, Connection], QueueAccess] = {}


def access_for(connection: Connection) -> QueueAccess:
    """Return this process's connections for these settings, made when new. Thread-safe."""
    key = os.getpid(), connection
    with _lock:
        access = _open.get(key)
        if access is not None:
            return access
        for pid, other in list(_open):
            if pid != os.getpid():
                del _open[pid, other]  # a forked child's inheritance: its sockets are closed
        if len(_open) >= OPEN_MOST:
            _open.pop(next(iter(_open))).shutdown()
        access = QueueAccess(**_settings(connection))
        access.start()
        if not _open:
            atexit.register(close_all)
        _open[key] = access
    return access


def close_all() -> None:
    """Close every connection of this process; what is needed later is opened again."""
    with _lock:
        mine = [access for (pid, _), access in _open.items() if pid == os.getpid()]
        _open.clear()
    for access in mine:
        access.shutdown()


def is_transient(error: BaseException) -> bool:
    """Whether asking again can help: a silent server, or a refusal that is about now."""
    if isinstance(error, MQBrokerException):
        return error.response_code in BUSY_CODES
    if isinstance(error, NoRouteError):
        return False
    return isinstance(error, (RemotingException, MQClientException))


def retrying(options: ReadOptions, what: str, ask: Callable[[], _T]) -> _T:
    """Ask up to ``fetchOffset.numRetries`` times more; then one error says what was asked."""
    attempt = 1
    while True:
        try:
            return ask()
        except NoRouteError:
            raise
        except (RemotingException, MQBrokerException, MQClientException) as error:
            if attempt > options.retries or not is_transient(error):
                raise MQClientException(
                    f"{what} failed after {attempt} tries at name server "
                    f"{options.connection.name_server}: {error}"
                ) from None
        attempt += 1
        threading.Event().wait(options.retry_interval_ms / 1000)


def _settings(connection: Connection) -> dict[str, Any]:  # Any: passed on as keyword settings
    settings: dict[str, Any] = dict(connection.settings)
    settings["namesrv_addr"] = connection.name_server
    settings["transport"] = "tcp"
    credentials = _credentials(connection)
    if credentials is not None:
        settings["credentials"] = credentials
    if connection.address_map:
        known = dict(connection.address_map)
        settings["address_mapper"] = lambda address: known.get(address, address)
    try:
        ClientConfig.build(None, settings)
    except (TypeError, ValueError) as error:
        raise OptionError(f"a client setting is wrong: {error}") from None
    return settings


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
        prefix = connection.credentials_env
        names = ("accessKey", "secretKey", "securityToken")
        variables = (f"{prefix}_ACCESS_KEY", f"{prefix}_SECRET_KEY", f"{prefix}_SECURITY_TOKEN")
        found = {
            name: os.environ[variable]
            for name, variable in zip(names, variables, strict=True)
            if variable in os.environ
        }
        return _made(found, f"environment variables {variables[0]} and {variables[1]}")
    if connection.credentials_file is not None:
        return CredentialsFile(connection.credentials_file)
    return None


class CredentialsFile:
    """Reads ``{"accessKey":...,"secretKey":...,"securityToken":...}``, again when it changes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._seen: tuple[int, int] | None = None
        self._now: Credentials | None = None

    def __call__(self) -> Credentials:
        path = spark_file(self._name)
        try:
            status = path.stat()
            stamp = status.st_mtime_ns, status.st_size
            if self._now is None or stamp != self._seen:
                values = json.loads(path.read_text(encoding="utf-8"))
                if not isinstance(values, dict):
                    raise OptionError(f"credentialsFile {self._name} holds no JSON object")
                self._now = _made(values, f"credentialsFile {self._name}")
                self._seen = stamp
        except (OSError, json.JSONDecodeError) as error:
            if self._now is None:
                kind = type(error).__name__
                raise OptionError(f"credentialsFile {self._name}: {kind}, no JSON read") from None
        return self._now


def _made(values: Mapping[str, str], where: str) -> Credentials:
    if not values.get("accessKey") or not values.get("secretKey"):
        raise OptionError(f"no credentials: {where} must give an access key and a secret key")
    return Credentials(values["accessKey"], values["secretKey"], values.get("securityToken"))


def spark_file(name: str) -> Path:
    """Return a file that Spark carries (``addFile``), else the path as it is."""
    if "/" not in name:
        try:
            from pyspark import SparkFiles

            folder = Path(SparkFiles.getRootDirectory())
            # The planner of a stream is told a folder below the one that holds the files.
            for place in (folder, folder.parent):
                if (place / name).exists():
                    return place / name
        except Exception:  # noqa: BLE001 - no Spark, or none that carries files here
            return Path(name)
    return Path(name)
