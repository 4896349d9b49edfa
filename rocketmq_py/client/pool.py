"""Which client instances this process has, and what happens to them at fork and at exit.

Instances are pooled per client id (``MQClientManager`` of the original) and belong to the process
that made them: a forked child starts with an empty pool, its inherited sockets closed without a
word to the servers. Must not know what an instance does.
"""

import atexit
import os
import socket
import threading
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from attrs import frozen

from rocketmq_py.client.background import EndingThread
from rocketmq_py.client.hooks import RPCHook
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.life import WITH_BLOCK, Life, lives_that_run, time_to_leave
from rocketmq_py.clock import monotonic, monotonic_ns
from rocketmq_py.config import INSTANCE_NAME_DEFAULT, ClientConfig
from rocketmq_py.logs import get_logger

_log = get_logger(__name__)


@frozen(kw_only=True)
class RunningClient:
    """A client of this process that was started and not shut down, with what it serves."""

    client_id: str
    namesrv_addr: str
    producer_groups: tuple[str, ...]
    consumer_groups: tuple[str, ...]


def running_clients() -> tuple[RunningClient, ...]:
    """Give the clients of this process that run, oldest first.

    A test-suite finds out with it who forgot to call ``shutdown``.

    >>> from rocketmq_py import DefaultMQProducer, running_clients
    >>> with DefaultMQProducer("shop", namesrv_addr="127.0.0.1:9876"):
    ...     any("shop" in client.producer_groups for client in running_clients())
    True
    """
    with _pool.lock:
        instances = list(_pool.instances.values())
    found = []
    for instance in instances:
        producers, consumers = instance.groups()
        found.append(
            RunningClient(
                client_id=instance.client_id,
                namesrv_addr=instance.config.namesrv_addr
                or ";".join(instance.name_servers.addresses),
                producer_groups=producers,
                consumer_groups=consumers,
            )
        )
    return tuple(found)


def wait_for_ends(timeout: float) -> None:
    """Wait at most ``timeout`` seconds for the shutdowns that go on in background."""
    deadline = monotonic() + timeout
    for thread in threading.enumerate():
        if isinstance(thread, EndingThread):
            thread.wait(max(0.0, deadline - monotonic()))


class _Key(NamedTuple):
    """Who may share an instance: those of one client id, and who only makes calls apart from them.

    Callers have no part in heartbeats and routes, so they would only get in the way.
    """

    client_id: str
    calls_only: bool


class _Pool:
    """The instances of this process, with the number of their users."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users: dict[_Key, int] = {}
        self.instances: dict[_Key, ClientInstance] = {}


_pool = _Pool()
_watching = False


def acquire_instance(
    config: ClientConfig,
    rpc_hooks: Iterable[RPCHook] = (),
    *,
    keep_instance_name: bool = False,
    stream: bool = False,
    calls_only: bool = False,
) -> ClientInstance:
    """Return the instance of the client id that ``config`` says, making it when new.

    Every acquisition must be given back by `ClientInstance.shutdown`. ``calls_only``: an instance
    for whoever neither produces nor consumes. ``keep_instance_name``: leave the name ``DEFAULT``
    as it is (broadcasting consumers name their offset file after it). ``stream``: of a consumer
    that is asked for messages, whose client id ends with ``@STREAM``.

    Raises `ConfigError` when the instance exists and sends elsewhere, or otherwise, than
    ``config`` and ``rpc_hooks`` ask for: its messages would go astray without a word.
    """
    key = _Key(
        client_id_of(config, keep_instance_name=keep_instance_name, stream=stream), calls_only
    )
    hooks = tuple(rpc_hooks)
    _watch_process()
    with _pool.lock:
        instance = _pool.instances.get(key)
        if instance is None:
            instance = ClientInstance(
                key.client_id,
                config,
                hooks,
                give_back=partial(_give_back, key),
                calls_only=calls_only,
            )
            _pool.instances[key] = instance
            _pool.users[key] = 0
        _pool.users[key] += 1
    try:
        instance.check_same(config, hooks)
    except BaseException:
        instance.shutdown()
        raise
    return instance


def _give_back(key: _Key, instance: ClientInstance) -> bool:
    """Take back one acquisition; True when it was the last one and the instance must end."""
    with _pool.lock:
        if _pool.instances.get(key) is not instance:
            return True  # not pooled (any more): closing is idempotent
        _pool.users[key] -= 1
        if _pool.users[key] > 0:
            return False
        del _pool.instances[key], _pool.users[key]
        return True


def client_id_of(
    config: ClientConfig, *, keep_instance_name: bool = False, stream: bool = False
) -> str:
    """Build ``ip@instance[@unit][@STREAM]``; the name ``DEFAULT`` becomes ``pid#nanoseconds``."""
    name = config.instance_name
    if name == INSTANCE_NAME_DEFAULT and not keep_instance_name:
        name = f"{os.getpid()}#{monotonic_ns()}"
    unit = f"@{config.unit_name}" if config.unit_name else ""
    kind = "@STREAM" if stream else ""
    return f"{config.client_ip or local_address()}@{name}{unit}{kind}"


def local_address() -> str:
    """Return this machine's address towards the network, else the loopback address.

    Asks the kernel's routing table; nothing is sent.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("10.255.255.255", 9))
        except OSError:
            return "127.0.0.1"
        address: str = probe.getsockname()[0]
    return address


def _watch_process() -> None:
    global _watching
    if _watching:
        return
    _watching = True
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forked)
    atexit.register(_exiting)


def _forked() -> None:
    """Begin anew in a forked child; the old pool's lock may be held by a thread that is gone."""
    global _pool
    inherited, _pool = _pool, _Pool()
    for instance in list(inherited.instances.values()):
        instance.drop_inherited()


def _exiting() -> None:
    """Shut down what the program forgot, and say so, within the time of one shutdown.

    That is when its main thread has ended, and all others that are no daemons.
    """
    deadline = monotonic() + time_to_leave()

    def left() -> float:
        return max(0.0, deadline - monotonic())

    wait_for_ends(left())  # whose caller was taken away, by a Ctrl-C perhaps
    forgotten = running_clients()
    if forgotten:
        _log.warning("%s", _told(forgotten, lives_that_run()))
    for life in lives_that_run():
        life.end(left())
    with _pool.lock:
        instances = list(_pool.instances.values())
    for instance in instances:  # of no client
        instance.end(left())


def _told(forgotten: tuple[RunningClient, ...], lives: list[Life]) -> str:
    ids = sorted(one.client_id for one in forgotten)
    who = f"client {ids[0]} was" if len(ids) == 1 else f"clients {', '.join(ids)} were"
    blocks = sorted({life.remedy.block for life in lives} or {WITH_BLOCK.block})
    receiving: dict[str, list[str]] = {}
    for life in lives:
        if life.remedy.to_stay:
            receiving.setdefault(life.remedy.to_stay, []).append(life.who())
    return ". ".join(
        [
            f"{who} not shut down: call shutdown(), or use it in {' or '.join(blocks)}",
            *(
                f"The program has ended, so nothing more arrives at {', '.join(sorted(names))}: "
                f"to stay alive, {to_stay}"
                for to_stay, names in receiving.items()
            ),
        ]
    )
