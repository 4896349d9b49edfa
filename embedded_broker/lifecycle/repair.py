"""How a store that its broker refuses to open is mended: it is opened once without the damage.

Answers: what was found and done. Everything is read, what is damaged is left out and copied to
`damaged/`, the rest is saved and closed. No client is let in and no timer fires. Must not know: how
files are mended, which is the part of who opens them. Read on: `embedded_broker/cli/store.py`.
"""

from collections.abc import Mapping
from pathlib import Path

from embedded_broker.clocks.clock import VirtualClock
from embedded_broker.errors import StoreError
from embedded_broker.lifecycle.arguments import check_arguments
from embedded_broker.lifecycle.node import BrokerNode
from embedded_broker.lifecycle.recovery_report import RecoveryReport
from embedded_broker.lifecycle.runtime import Runtime
from embedded_broker.lifecycle.snapshot import CLOCK_PATH
from embedded_broker.remoting.inproc import LocalClients
from embedded_broker.remoting.journal import Journal
from embedded_broker.store.commit_log import COMMIT_LOG_FOLDER
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.stores_below import stores_below
from embedded_broker.timer.slices.dcommit_log import DCOMMIT_LOG_FOLDER

_SIGNS = (COMMIT_LOG_FOLDER, "config")
"""Folders of which a store has at least one."""
_WHOLE = {"damagedRecords": "skip", "storeCheck": "full"}


def repair_store(store: Path | FileSystem, *, config: Mapping[str, object]) -> RecoveryReport:
    """Mend a store and close it; `config` are the options of its broker.

    Raises `StoreLockedError` while a broker has it, `ConfigError` for settings that do not fit, and
    `StoreError` for what cannot be mended.
    """
    fs = DirectoryFileSystem(store) if isinstance(store, Path) else store
    if not any(fs.list(folder) for folder in _SIGNS):
        below = stores_below(store, _SIGNS) if isinstance(store, Path) else ""
        raise StoreError(f"{store} is no store: it has neither {' nor '.join(_SIGNS)}{below}")
    is_sliced = bool(fs.list(DCOMMIT_LOG_FOLDER)) and "timerEngine" not in config
    virtual = any(name.startswith(Path(CLOCK_PATH).name) for name in fs.list("config"))
    arguments = check_arguments(
        store=None,
        clock=VirtualClock() if virtual else None,
        session_clock=None,
        profile="rocketmq-5.x",
        limits="broker",
        engine="sliced" if is_sliced else None,
        levels="on",
        defaults="embedded",
        config={**config, **_WHOLE},
        cluster_name="repair",
        broker_name="repair",
        host="127.0.0.1",
        namesrv_port=0,
        broker_port=0,
        tcp=False,
        inproc=True,
        topics=(),
        seed=0,
        allow_remote=False,
        fs=None,
        listener_factory=None,
    )
    runtime = Runtime(arguments, Journal(), 0, LocalClients())
    try:
        address = runtime.open_address(0, 0, 0)
        node = BrokerNode(runtime, arguments, fs, address)
        problem = node.parts.store.health.problem
        node.close()
        problem = problem or node.unsaved
        if problem is not None:
            raise StoreError(f"{store} cannot be mended now: {problem}")
    finally:
        runtime.close()
    return node.recovery
