"""Where keys come from that change: the environment, a file, or a function that fetches new ones.

Each class here is a `CredentialsProvider`, a value for the setting ``credentials``. It is asked
for each request, and ``remoting.py`` tells it when a server refused what it gave (`renew`). None
shows a key in its repr or in a log, and each is pickled as the place that it reads, so whoever gets
it reads there. Fixed keys are `Credentials` themselves. Must not know requests or answers.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import Final, Protocol

from attrs import field, frozen

from rocketmq_py.clock import monotonic, wall_ms
from rocketmq_py.config import Credentials, shown_source
from rocketmq_py.errors import ConfigError, MQClientException, RocketMQError
from rocketmq_py.logs import get_logger
from rocketmq_py.threads import started

_log = get_logger(__name__)

ENVIRONMENT_PREFIX: Final = "ROCKETMQ"
RENEW_BEFORE: Final = timedelta(minutes=5)
FETCH_WITHIN: Final = timedelta(seconds=10)
FETCH_EVERY_S: Final = 1.0
"""Keys are not fetched more often than this, whatever servers refuse and functions fail."""
LOOK_EVERY_S: Final = 1.0
"""How often a file is looked at."""
FILE_SIZE_MAX: Final = 65_536

_NAMES: Final = ("accessKey", "secretKey", "securityToken")


class CredentialsProvider(Protocol):
    """Gives the credentials that count now; called for each request, on any thread.

    It must be quick: whoever sends waits for it. `Credentials.expires_at` says how long they count,
    if that is known. A provider may have ``renew(refused: Credentials) -> bool``, which is called
    when a server refused them, on a thread that may wait; True: there are others now.
    """

    def __call__(self) -> Credentials:
        """Give access key, secret key, security token and their end."""


@frozen
class EnvironmentCredentials:
    """Keys of the environment: ``ROCKETMQ_ACCESS_KEY``, ``_SECRET_KEY`` and ``_SECURITY_TOKEN``.

    ``prefix`` stands for ``ROCKETMQ``. The variables are read for each request, so a change counts
    at once. `ConfigError` names the variable that is missing.

    >>> EnvironmentCredentials("SHOP")
    EnvironmentCredentials(prefix='SHOP')
    """

    prefix: str = ENVIRONMENT_PREFIX

    def __call__(self) -> Credentials:
        """Read the variables."""
        variables = (f"{self.prefix}_ACCESS_KEY", f"{self.prefix}_SECRET_KEY")
        for name in variables:
            if not os.environ.get(name):
                raise ConfigError("credentials", self, f"environment variable {name} is not set")
        access_key, secret_key = (os.environ[name] for name in variables)
        token = os.environ.get(f"{self.prefix}_SECURITY_TOKEN")
        return Credentials(access_key, secret_key, token or None)


class FileCredentials:
    """Keys of a file: a JSON object, or lines ``name=value``, of ``accessKey`` and ``secretKey``.

    ``securityToken`` may stand there, too, and names may begin with a capital letter. The file is
    read again when it has changed, looked at once a second, and when a server refuses its keys.
    While it cannot be read, as when it is being written, what was read last counts. `ConfigError`
    when it has never been readable. Safe from any thread.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._looked_at = 0.0
        self._have: Credentials | None = None
        self._is_broken = False

    def __repr__(self) -> str:
        return f"FileCredentials({str(self.path)!r})"

    def __reduce__(self) -> tuple[type[FileCredentials], tuple[str]]:
        return type(self), (str(self.path),)

    def __call__(self) -> Credentials:
        """Give what the file holds."""
        with self._lock:
            have, now = self._have, monotonic()
            if have is not None and now - self._looked_at < LOOK_EVERY_S:
                return have
            self._looked_at = now
            return self._read()

    def renew(self, refused: Credentials) -> bool:
        """Read the file once more; True when it holds others than the refused ones."""
        with self._lock:
            self._seen = None
            return self._read() != refused

    def _read(self) -> Credentials:
        try:
            path = self._place()
            status = path.stat()
            stamp = status.st_mtime_ns, status.st_size, status.st_ino
            if self._have is None or stamp != self._seen:
                self._have = _parsed(path)
                self._seen = stamp
            self._is_broken = False
        except (OSError, ValueError) as error:
            # What a parser raises may hold the file's content.
            why = error.strerror if isinstance(error, OSError) else type(error).__name__
            if isinstance(error, _UnusableError):
                why = str(error)
            if self._have is None:
                raise ConfigError("credentials", self, f"the file cannot be read: {why}") from None
            if not self._is_broken:
                _log.warning("%r cannot be read, its last keys stay in use: %s", self, why)
            self._is_broken = True
        return self._have

    def _place(self) -> Path:
        """Say where the file lies now."""
        return self.path


class _UnusableError(ValueError):
    """A file holds no keys; the text says why and shows none."""


def _parsed(path: Path) -> Credentials:
    with path.open("rb") as file:
        content = file.read(FILE_SIZE_MAX + 1)
    if len(content) > FILE_SIZE_MAX:
        raise _UnusableError(f"it has more than {FILE_SIZE_MAX} bytes")
    text = content.decode()
    if text.lstrip().startswith("{"):
        pairs = json.loads(text)
    else:
        lines = (line.partition("=") for line in text.splitlines() if "=" in line)
        pairs = {name.strip(): value.strip() for name, _, value in lines}
    access_key, secret_key, token = (_of(pairs, name) for name in _NAMES)
    if not access_key or not secret_key:
        raise _UnusableError("it must give accessKey and secretKey")
    return Credentials(access_key, secret_key, token)


def _of(pairs: Mapping[str, object], name: str) -> str | None:
    value = pairs.get(name) or pairs.get(name[0].upper() + name[1:])
    return str(value) if value else None


@frozen
class _Fetch:
    """One call of the function; a forked child has no thread that would end its parent's."""

    began_at: float
    outcome: Future[Credentials] = field(factory=Future)
    process: int = field(factory=os.getpid)

    @property
    def is_running(self) -> bool:
        return self.process == os.getpid() and not self.outcome.done()


class RotatingCredentials:
    """Keys that a function fetches, such as temporary ones of an STS, renewed before they expire.

    ``fetch`` returns `Credentials`, with ``expires_at`` if it is known. It runs on a thread of its
    own, once at a time: whoever needs keys meanwhile waits for the same call, and only while there
    are none that count, until ``within`` after its beginning. From ``renew_before`` their end on
    (half of their time, if that is less) new ones are fetched in the background; a server that
    refuses them has them renewed at once, but not more often than once a second. A function that
    never returns is not called again. Call the provider once beforehand where the first fetch must
    not keep an event loop waiting. `MQClientException` says that there are no keys.

    It is pickled as the function, which therefore must be importable.
    """

    def __init__(
        self,
        fetch: Callable[[], Credentials],
        *,
        renew_before: timedelta = RENEW_BEFORE,
        within: timedelta = FETCH_WITHIN,
    ) -> None:
        if not callable(fetch):
            raise ConfigError("fetch", type(fetch), "must be a function that returns Credentials")
        for name, value in (("renew_before", renew_before), ("within", within)):
            if not isinstance(value, timedelta) or value <= timedelta(0):
                raise ConfigError(name, value, "must be a timedelta above 0")
        self._function = fetch
        self._renew_before = renew_before
        self._within = within
        self._lock = threading.Lock()
        self._have: Credentials | None = None
        self._renew_at_ms = inf
        self._last: _Fetch | None = None
        self._ended_at: float | None = None

    def __repr__(self) -> str:
        return f"RotatingCredentials({shown_source(self._function)})"

    def __reduce__(self) -> tuple[Callable[..., RotatingCredentials], tuple[object, ...]]:
        return _rotating, (self._function, self._renew_before, self._within)

    def __call__(self) -> Credentials:
        """Give those that count now; waits only when there are none."""
        now_ms = wall_ms()
        with self._lock:
            have = self._have
            if have is not None and now_ms < self._renew_at_ms:
                return have
            fetch = self._begin()
        if have is None or now_ms >= _end_ms(have):
            return self._result(fetch)
        return have

    def renew(self, refused: Credentials) -> bool:
        """Fetch others than the refused ones, unless somebody has done so already."""
        with self._lock:
            if self._have is not None and self._have != refused:
                return True
            fetch = self._begin()
        return self._result(fetch) != refused

    def _begin(self) -> _Fetch:
        """Give the call that goes on, or has just ended; else begin one. The lock is held."""
        last = self._last
        if last is not None:
            just = self._ended_at is not None and monotonic() - self._ended_at < FETCH_EVERY_S
            if last.is_running or (just and last.process == os.getpid()):
                return last
        fetch = self._last = _Fetch(monotonic())
        thread = threading.Thread(
            target=self._run, args=(fetch,), name="rocketmq-credentials", daemon=True
        )
        if not started(thread):
            fetch.outcome.set_exception(MQClientException("the system starts no thread now"))
        return fetch

    def _run(self, fetch: _Fetch) -> None:
        try:
            got = _checked(self._function())
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            with self._lock:
                self._ended_at = monotonic()
                have = self._have
            if have is not None:
                _log.warning("%r failed, the keys in use stay: %s", self, type(error).__name__)
            fetch.outcome.set_exception(error)
        else:
            with self._lock:
                self._have, self._renew_at_ms = got, self._renewed_at_ms(got)
                self._ended_at = monotonic()
            fetch.outcome.set_result(got)

    def _renewed_at_ms(self, got: Credentials) -> float:
        now_ms, end_ms = wall_ms(), _end_ms(got)
        return end_ms - min(self._renew_before / timedelta(milliseconds=1), (end_ms - now_ms) / 2)

    def _result(self, fetch: _Fetch) -> Credentials:
        # All who wait for a call wait until the same moment: a function that hangs holds up nobody
        # who comes later, such as the thread that reads answers.
        left_s = fetch.began_at + self._within.total_seconds() - monotonic()
        try:
            return fetch.outcome.result(max(0.0, left_s))
        except Exception as error:
            if isinstance(error, TimeoutError) and not fetch.outcome.done():
                why = f"it has not returned within {self._within.total_seconds():g} s"
            else:
                known = isinstance(error, RocketMQError)  # another text may hold a secret
                why = str(error) if known else f"it raised {type(error).__name__}"
            raise MQClientException(f"no credentials of {self!r}: {why}") from error


def _checked(got: object) -> Credentials:
    if not isinstance(got, Credentials):
        raise MQClientException(f"it returned {type(got).__name__} instead of Credentials")
    return got


def _end_ms(credentials: Credentials) -> float:
    return inf if credentials.expires_at is None else credentials.expires_at.timestamp() * 1000


def _rotating(
    fetch: Callable[[], Credentials], renew_before: timedelta, within: timedelta
) -> RotatingCredentials:
    return RotatingCredentials(fetch, renew_before=renew_before, within=within)
