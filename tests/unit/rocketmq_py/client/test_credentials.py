"""Providers of credentials: what they give, when they look again, and what they never show."""

from __future__ import annotations

import json
import logging
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rocketmq_py import (
    ClientConfig,
    ConfigError,
    Credentials,
    EnvironmentCredentials,
    FileCredentials,
    MQClientException,
    QueueAccess,
    RotatingCredentials,
)
from rocketmq_py.client import credentials as module
from tests.waiting import until

GUARD_S = 30.0
SECRET = "nobody-may-see-this"
NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Time:
    """The time that the module under test reads, in seconds since `NOW`."""

    def __init__(self) -> None:
        self.s = 0.0

    def monotonic(self) -> float:
        return self.s

    def wall_ms(self) -> int:
        return int((NOW.timestamp() + self.s) * 1000)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(module, "monotonic", made.monotonic)
    monkeypatch.setattr(module, "wall_ms", made.wall_ms)
    return made


class Sts:
    """Gives key 1, 2, ... which last for a minute; `held` keeps it from returning."""

    def __init__(self, time: Time, *, lasts: bool = True) -> None:
        self.time = time
        self.lasts = lasts
        self.calls = 0
        self.error: Exception | None = None
        self.goes = threading.Event()
        self.goes.set()

    def __call__(self) -> Credentials:
        self.calls += 1
        key = f"key {self.calls}"
        assert self.goes.wait(GUARD_S)
        if self.error is not None:
            raise self.error
        end = NOW + timedelta(seconds=self.time.s + 60) if self.lasts else None
        return Credentials(key, SECRET, SECRET, expires_at=end)


@pytest.fixture
def sts(time: Time) -> Iterator[Sts]:
    made = Sts(time)
    yield made
    made.goes.set()


def rotating(sts: Sts, **settings: timedelta) -> RotatingCredentials:
    return RotatingCredentials(sts, **{"renew_before": timedelta(seconds=20), **settings})


# --- environment --------------------------------------------------------------------------------


def test_the_environment_is_read_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    source = EnvironmentCredentials("SHOP")
    monkeypatch.setenv("SHOP_ACCESS_KEY", "a")
    monkeypatch.setenv("SHOP_SECRET_KEY", SECRET)
    assert source() == Credentials("a", SECRET)
    monkeypatch.setenv("SHOP_SECURITY_TOKEN", "t")
    assert source() == Credentials("a", SECRET, "t")


def test_a_missing_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETMQ_ACCESS_KEY", "a")
    monkeypatch.delenv("ROCKETMQ_SECRET_KEY", raising=False)
    with pytest.raises(ConfigError, match="ROCKETMQ_SECRET_KEY is not set"):
        EnvironmentCredentials()()


# --- file ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"accessKey": "a", "secretKey": SECRET, "securityToken": "t"}),
        f"accessKey = a\nsecretKey={SECRET}\nsecurityToken=t\n",
        f"# of ONS\nAccessKey=a\nSecretKey={SECRET}\nSecurityToken=t",
    ],
)
def test_a_file_holds_json_or_lines(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text)
    assert FileCredentials(path)() == Credentials("a", SECRET, "t")


def test_a_file_is_read_again_when_it_changed_and_a_broken_one_changes_nothing(
    tmp_path: Path, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys"
    path.write_text(f"accessKey=old\nsecretKey={SECRET}")
    source = FileCredentials(path)
    assert source().access_key == "old"
    path.write_text(f"accessKey=newer\nsecretKey={SECRET}")
    assert source().access_key == "old"  # looked at a moment ago
    time.s += 2
    assert source().access_key == "newer"
    path.write_text('{"secretKey": "' + SECRET)
    for _ in range(2):
        time.s += 2
        assert source().access_key == "newer"
    assert caplog.text.count("its last keys stay in use") == 1
    assert SECRET not in caplog.text


def test_after_a_refusal_a_file_is_read_at_once(tmp_path: Path, time: Time) -> None:
    path = tmp_path / "keys"
    path.write_text(f"accessKey=old\nsecretKey={SECRET}")
    source = FileCredentials(path)
    refused = source()
    assert source.renew(refused) is False
    path.write_text(f"accessKey=new\nsecretKey={SECRET}")
    assert source.renew(refused) is True
    assert (source().access_key, time.s) == ("new", 0)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "No such file"),
        (f"secretKey={SECRET}", "must give accessKey and secretKey"),
        ('{"secretKey": "' + SECRET, "JSONDecodeError"),
        ("[" + "x" * 70_000, "more than 65536 bytes"),
        ("accessKey=\ud800".encode("utf-8", "surrogatepass"), "UnicodeDecodeError"),
        ('["secretKey"]', "must give"),
    ],
)
def test_a_file_that_was_never_readable_is_named_without_its_content(
    tmp_path: Path, text: str | bytes | None, why: str
) -> None:
    path = tmp_path / "keys"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError, match=why) as refused:
        FileCredentials(path)()
    assert str(path) in str(refused.value)
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None


# --- a function ---------------------------------------------------------------------------------


def test_keys_are_fetched_once_and_again_before_they_expire(sts: Sts, time: Time) -> None:
    source = rotating(sts)
    assert [source().access_key for _ in range(3)] == ["key 1"] * 3
    time.s = 39
    assert (source().access_key, sts.calls) == ("key 1", 1)
    time.s = 41
    sts.goes.clear()
    assert source().access_key == "key 1"  # nobody waits while they count
    sts.goes.set()
    until(lambda: source().access_key == "key 2", GUARD_S)
    assert sts.calls == 2


def test_keys_without_an_end_are_fetched_once(time: Time) -> None:
    sts = Sts(time, lasts=False)
    source = rotating(sts)
    assert source().access_key == "key 1"
    time.s += 10**9
    assert (source().access_key, sts.calls) == ("key 1", 1)


def test_all_who_wait_share_one_call(sts: Sts) -> None:
    source = rotating(sts)
    sts.goes.clear()
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(source().access_key)) for _ in range(8)]
    for thread in threads:
        thread.start()
    until(lambda: sts.calls == 1, GUARD_S)
    sts.goes.set()
    for thread in threads:
        thread.join(GUARD_S)
    assert (found, sts.calls) == (["key 1"] * 8, 1)


def test_a_refusal_renews_them_once_for_all_who_were_refused(sts: Sts, time: Time) -> None:
    source = rotating(sts)
    refused = source()
    time.s += 2
    assert [source.renew(refused) for _ in range(3)] == [True] * 3
    assert (source().access_key, sts.calls) == ("key 2", 2)


def test_servers_that_refuse_everything_do_not_make_it_fetch_all_the_time(
    sts: Sts, time: Time
) -> None:
    source = rotating(sts)
    for _ in range(5):
        source.renew(source())
    assert sts.calls == 1
    time.s += 2
    assert source.renew(source()) is True


def test_a_function_that_fails_leaves_keys_that_count_in_use(
    sts: Sts, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    source = rotating(sts)
    source()
    sts.error = OSError(SECRET)
    time.s = 50
    assert source().access_key == "key 1"
    until(lambda: "the keys in use stay: OSError" in caplog.text, GUARD_S)
    assert SECRET not in caplog.text
    time.s = 61
    with pytest.raises(MQClientException, match=r"of RotatingCredentials.*OSError") as told:
        source()
    assert SECRET not in str(told.value)
    sts.error = None
    time.s = 63
    assert source().access_key.startswith("key")


def test_a_function_that_hangs_is_waited_for_no_longer_than_allowed(sts: Sts) -> None:
    source = rotating(sts, within=timedelta(milliseconds=10))
    sts.goes.clear()
    for _ in range(3):
        with pytest.raises(MQClientException, match=r"has not returned within 0\.01 s"):
            source()
    assert sts.calls == 1


def test_while_a_function_hangs_those_who_come_later_are_told_at_once(sts: Sts, time: Time) -> None:
    source = rotating(sts, within=timedelta(days=1))
    sts.goes.clear()

    def first() -> None:
        with suppress(MQClientException):  # its time is over, too, when it goes on
            source()

    waiting = threading.Thread(target=first, daemon=True)
    waiting.start()
    until(lambda: sts.calls == 1, GUARD_S)
    time.s += 2 * 86_400
    with pytest.raises(MQClientException, match="has not returned"):
        source()
    sts.goes.set()
    waiting.join(GUARD_S)


def test_what_is_no_credentials_is_told_by_its_kind() -> None:
    source = RotatingCredentials(lambda: SECRET)  # type: ignore[arg-type,return-value] # a mistake
    with pytest.raises(MQClientException, match="returned str instead of Credentials") as told:
        source()
    assert SECRET not in str(told.value)


@pytest.mark.parametrize("name", ["renew_before", "within"])
def test_times_must_be_above_zero(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        RotatingCredentials(fetched, **{name: timedelta(0)})


def test_an_end_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"expires_at.*time zone"):
        Credentials("a", "b", expires_at=datetime(2030, 1, 1))  # noqa: DTZ001 - the mistake


# --- what is shown, and what is pickled -----------------------------------------------------------


def fetched() -> Credentials:
    return Credentials("a", SECRET)


@pytest.fixture(params=["environment", "file", "function"])
def source(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Credentials]:
    """Has been asked once, so that it holds keys if it keeps any."""
    path = tmp_path / "keys"
    path.write_text(f"accessKey=a\nsecretKey={SECRET}")
    monkeypatch.setenv("ROCKETMQ_ACCESS_KEY", "a")
    monkeypatch.setenv("ROCKETMQ_SECRET_KEY", SECRET)
    made: dict[str, Callable[[], Credentials]] = {
        "environment": EnvironmentCredentials(),
        "file": FileCredentials(path),
        "function": RotatingCredentials(fetched),
    }
    found = made[request.param]
    assert found() == Credentials("a", SECRET)
    return found


def test_a_provider_is_pickled_as_its_source_and_shows_no_key(
    source: Callable[[], Credentials], caplog: pytest.LogCaptureFixture
) -> None:
    config = ClientConfig(credentials=source)
    packed = pickle.dumps(config)
    assert SECRET.encode() not in packed
    again = pickle.loads(packed).credentials  # noqa: S301 - packed here
    assert again() == Credentials("a", SECRET)
    with caplog.at_level(logging.DEBUG):
        shown = f"{source!r} {config!r} {QueueAccess(credentials=source)!r} {again!r}"
    assert SECRET not in shown + caplog.text
    assert type(source).__name__ in shown


def test_a_bound_function_is_shown_by_its_name() -> None:
    from functools import partial

    config = ClientConfig(credentials=partial(Credentials, "a", SECRET))
    assert SECRET not in repr(config)
    assert "partial" in repr(config)
