"""Repair of a store that its broker refuses to open: a copy without the damage is made.

Answers: what was found and done. The store itself stays as it is. Its copy is opened once, with all
of it read and what is damaged left out, then saved and closed. No client is let in and no timer
fires. Must not know: how damage is left out, which is the part of who opens files. Read on:
`embedded_broker/cli/store.py`.
"""

from collections.abc import Mapping
from pathlib import Path

from embedded_broker.clocks.clock import VirtualClock
from embedded_broker.errors import StoreError
from embedded_broker.lifecycle.arguments import check_arguments
from embedded_broker.lifecycle.new_folder import (
    STORE_NAMES,
    copy_file,
    copy_whole,
    files_below,
    new_folder,
)
from embedded_broker.lifecycle.node import BrokerNode
from embedded_broker.lifecycle.recovery_report import RecoveryReport
from embedded_broker.lifecycle.runtime import Runtime
from embedded_broker.lifecycle.snapshot import CLOCK_PATH, CONFIG_FOLDER
from embedded_broker.remoting.inproc import LocalClients
from embedded_broker.remoting.journal import Journal
from embedded_broker.store.commit_log import COMMIT_LOG_FOLDER
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.message_store import LOCK_FILE
from embedded_broker.store.stores_below import stores_below
from embedded_broker.timer.slices.dcommit_log import DCOMMIT_LOG_FOLDER

_SIGNS = (COMMIT_LOG_FOLDER, CONFIG_FOLDER)
"""Folders of which a store has at least one."""
_WHOLE = {"damagedRecords": "skip", "storeCheck": "full"}


def repair_store(store: Path, into: Path, *, config: Mapping[str, object]) -> RecoveryReport:
    """Write a store without what is damaged to a new folder; `config` are its broker's options.

    The folder is new or empty, and appears when it is whole. Raises `StoreLockedError` while a
    broker has the store, `ConfigError` for settings that do not fit, and `StoreError` for a folder
    that is in use, a full disk, and what cannot be repaired.
    """
    source = DirectoryFileSystem(store)
    if not any(source.list(folder) for folder in _SIGNS):
        below = stores_below(store, _SIGNS)
        raise StoreError(f"{store} is no store: it has neither {' nor '.join(_SIGNS)}{below}")
    if into.absolute().is_relative_to(store.absolute()):
        raise StoreError(f"{into} lies in {store}: a repair writes beside the store")
    with new_folder(into, "repair") as beside:
        target = DirectoryFileSystem(beside)
        source.lock(LOCK_FILE, "rocketmq-py store repair")
        try:
            for name in STORE_NAMES:
                copy = copy_whole if name == CONFIG_FOLDER else copy_file
                for path in files_below(source, name):
                    copy(source, target, path)
        finally:
            source.unlock(LOCK_FILE)
        return open_without_damage(target, config)


def open_without_damage(fs: FileSystem, config: Mapping[str, object]) -> RecoveryReport:
    """Open a store once, leave out what is damaged, and close it. Raises as `repair_store`."""
    is_sliced = bool(fs.list(DCOMMIT_LOG_FOLDER)) and "timerEngine" not in config
    virtual = any(name.startswith(Path(CLOCK_PATH).name) for name in fs.list(CONFIG_FOLDER))
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
            raise StoreError(f"the repaired store cannot be saved: {problem}")
    finally:
        runtime.close()
    return node.recovery
