"""Brokers that run together: one broker, or all of a cluster.

Answers: in which order name server, brokers, threads and clients start and end, how one broker
leaves and comes while the others go on, what survives a restart, and what happens to brokers that
nobody closed. Must not know: what a user calls. Read on: ``embedded_broker/lifecycle/node.py`` for
one broker, ``embedded_broker/lifecycle/runtime.py`` for what they share.
"""

import atexit
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from random import Random
from typing import Protocol

from embedded_broker.errors import BrokerStateError
from embedded_broker.lifecycle.arguments import Arguments
from embedded_broker.lifecycle.grpc_serving import GrpcFace
from embedded_broker.lifecycle.idleness import Crashed
from embedded_broker.lifecycle.new_folder import STORE_NAMES
from embedded_broker.lifecycle.node import BrokerNode
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.lifecycle.reset import Connected, still_connected
from embedded_broker.lifecycle.runtime import BROKER_PORT, Runtime
from embedded_broker.lifecycle.unsynced import Unsynced, look_at_unsynced
from embedded_broker.remoting.inproc import LocalClients, back_soon
from embedded_broker.remoting.journal import Journal
from embedded_broker.remoting.request_faults import Faulted, RequestFaults
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.memory_fs import MemoryFileSystem
from rocketmq_py.logs import get_logger

logger = get_logger(__name__)

_running: "dict[RunningBrokers, None]" = {}


class BrokerSlot:
    """One broker of several that run together: what stays when it is closed and started again."""

    def __init__(self, arguments: Arguments, number: int) -> None:
        self.arguments = arguments
        self.number = number
        self.address = ""
        self.ha_address = ""
        """Where slaves follow it, if they may."""
        self.node: BrokerNode | None = None
        self.loses: bool | None = None
        """Whether the next crash loses unsynced bytes: all (False) or random last parts (True)."""
        self.request_faults = RequestFaults()
        self.random = Random(arguments.seed)
        """For what the disk does; the broker's own choices do not depend on it."""
        self._fs: FileSystem | None = arguments.fs
        self._crashed: Crashed | None = None
        self._unsynced: Unsynced | None = None

    @property
    def file_system(self) -> FileSystem:
        """Where the bytes go, the same object in every life of the broker."""
        if self._fs is None:
            root = self.arguments.store
            self._fs = MemoryFileSystem() if root is None else DirectoryFileSystem(root)
        return self._fs

    @property
    def is_running(self) -> bool:
        """Whether the broker is there."""
        return self.node is not None

    def open(self, runtime: Runtime) -> BrokerNode:
        """Open the store and the address, and create the topics that were asked for."""
        self.forget_crash()
        arguments = self.arguments
        had = port_of(self.address)
        address = runtime.open_address(
            had or arguments.broker_port, BROKER_PORT, self.number, again=had > 0
        )
        try:
            unsynced, self._unsynced = self._unsynced, None
            self.ha_address = self._open_for_slaves(runtime, address)
            self.node = node = BrokerNode(
                runtime,
                arguments,
                self.file_system,
                address,
                ha_address=self.ha_address,
                unsynced=unsynced,
            )
            self.address = address
            self._create_topics(node)
            node.start()
        except BaseException:
            runtime.shut_out(address)
            raise
        return node

    def _open_for_slaves(self, runtime: Runtime, address: str) -> str:
        port = self.arguments.config.int("haListenPort")
        if port < 0:
            return ""
        had = port_of(self.ha_address)
        return runtime.open_for_slaves(address, had or port, again=had > 0)

    def reset(self, runtime: Runtime, *, clock: bool) -> Connected:
        """Begin with an empty store behind the same connections; requests wait meanwhile.

        With ``clock`` time begins anew, too. Gives who is connected.
        """
        old, fs = self.node, self.file_system
        if old is None:
            raise BrokerStateError("there is nothing to reset: call start()")
        self.node = None
        old.crash()
        for name in STORE_NAMES:
            fs.remove_tree(name)
        if clock:
            self.arguments.clock.begin_again()
        self.node = node = BrokerNode(
            runtime,
            self.arguments,
            fs,
            self.address,
            ha_address=self.ha_address,
            predecessor=old.parts,
        )
        self._create_topics(node)
        node.start()
        node.take_over()
        with node.parts.door:
            return still_connected(node.parts)

    def crash(self, node: BrokerNode) -> None:
        """Let go of the files as a killed process does, and lose what a test wants to be lost."""
        try:
            with node.parts.door:
                self._unsynced = look_at_unsynced(node.parts)
        finally:
            node.crash()
            self.lose_power()

    def note_crash(self) -> None:
        """Let nobody find its clients idle until it is opened again, or closed."""
        self._crashed = Crashed(self.arguments.broker_name)
        self.arguments.clock.move_in(self._crashed)

    def forget_crash(self) -> None:
        """Undo ``note_crash``; idempotent."""
        crashed, self._crashed = self._crashed, None
        if crashed is not None:
            self.arguments.clock.move_out(crashed)

    def lose_power(self) -> None:
        """Lose the bytes that a test wants to be lost in a crash."""
        loses, self.loses = self.loses, None
        if loses is not None:
            self.file_system.lose_unsynced(self.random if loses else None)

    def _create_topics(self, node: BrokerNode) -> None:
        for spec in self.arguments.topics:
            with node.parts.door:
                if spec.name not in node.parts.tables.topics:
                    spec.create(node.parts.administration.settings)


class ExtraServer(Protocol):
    """What starts after brokers and ends before them; crashes and restarts leave it alone."""

    def start(self) -> None:
        """Begin; does nothing when it runs."""

    def close(self) -> None:
        """End; idempotent and bounded in time."""


class RunningBrokers:
    """Brokers behind one name server. ``start`` after ``close`` keeps ports and data."""

    def __init__(self, slots: Sequence[BrokerSlot]) -> None:
        self.slots = list(slots)
        self.extra_servers: list[ExtraServer] = []
        self.journal = Journal()
        self._clients = LocalClients()
        self.namesrv_addr = ""
        self.grpc_ports = (0, 0)
        """Where gRPC clients ask, plain and with TLS; 0 before the first start, and without."""
        self._runtime: Runtime | None = None
        self._process = os.getpid()

    def __repr__(self) -> str:
        names = ", ".join(slot.arguments.broker_name for slot in self.slots)
        state = f"name server {self.namesrv_addr}" if self.is_running else "not running"
        return f"<broker {names}, {state}>"

    @property
    def is_running(self) -> bool:
        """Whether clients can reach it."""
        return self._runtime is not None

    def check_process(self) -> None:
        """Raise ``BrokerStateError`` in a forked child: threads and sockets stayed behind."""
        if os.getpid() != self._process:
            raise BrokerStateError(
                f"{self!r} belongs to process {self._process}, this is its forked child "
                f"{os.getpid()}. Start another broker here, or connect to the parent's over TCP"
            )

    def start(self) -> None:
        """Open everything and let clients in; after a failure nothing is left open."""
        self.check_process()
        if self._runtime is not None:
            raise BrokerStateError(f"{self!r} is already running")
        first = self.slots[0]
        runtime = Runtime(first.arguments, self.journal, first.number, self._clients)
        runtime.memory.brokers = len(self.slots)
        try:
            had = port_of(self.namesrv_addr)
            namesrv_addr = runtime.open_namesrv(had or first.arguments.namesrv_port, again=had > 0)
            nodes = [slot.open(runtime) for slot in self.slots]
            namesrv = runtime.serve_namesrv(namesrv_addr, nodes[0].parts)
            for slot, node in zip(self.slots, nodes, strict=True):
                also = [namesrv] if slot is first else []
                slot.request_faults.attach(node.parts.endpoint, *also, *_faulted(runtime))
            runtime.start()
            self.grpc_ports = runtime.open_grpc(self.grpc_ports)
            for server in self.extra_servers:
                server.start()
        except BaseException:
            self._close(runtime)
            raise
        self.namesrv_addr = namesrv_addr
        self._runtime = runtime
        if not _running:
            # Registered late, so that it runs before what other modules registered at import.
            atexit.unregister(_close_left_over)
            atexit.register(_close_left_over)
        _running[self] = None

    def close(self) -> None:
        """End extra servers, then clients, then timers, then files. Idempotent, bounded in time.

        After a Ctrl-C in the middle it may be called again.
        """
        self.check_process()
        for server in self.extra_servers:
            server.close()
        self._close_brokers()

    def _close_brokers(self) -> None:
        runtime, self._runtime = self._runtime, None
        _running.pop(self, None)
        for slot in self.slots:
            slot.forget_crash()
        if runtime is None:
            return
        nodes = {slot: slot.node for slot in self.slots}
        try:
            self._close(runtime)
        except Exception:
            raise
        except BaseException:  # a Ctrl-C: all of it is done again, and what was done stays so
            self._runtime, _running[self] = runtime, None
            for slot, node in nodes.items():
                slot.node = node
            raise

    def crash(self) -> None:
        """End as a killed process does: sockets reset, nothing saved, what was written stays."""
        self.check_process()
        runtime, self._runtime = self._running(), None
        _running.pop(self, None)
        nodes = [(slot, slot.node) for slot in self.slots if slot.node is not None]
        for slot, node in nodes:
            slot.note_crash()
            slot.node = None
            node.stop_flushing()
        try:
            runtime.close(reset=True)
        finally:
            for slot, node in nodes:
                slot.crash(node)

    def restart(self, *, crash: bool = False) -> None:
        """End, cleanly or as a killed process does, and start again; clients here wait for it."""
        with back_soon([self.namesrv_addr, *(slot.address for slot in self.slots)]):
            if crash:
                self.crash()
            else:
                self.check_process()
                self._close_brokers()
            self.start()

    def add(self, slot: BrokerSlot) -> None:
        """Take one more broker in. It starts with the others, or at once when they run."""
        self.slots.append(slot)
        if self._runtime is not None:
            self._share_memory(self._runtime)
            try:
                self.open_one(slot)
            except BaseException:
                self.slots.remove(slot)
                self._share_memory(self._runtime)
                raise

    def _share_memory(self, runtime: Runtime) -> None:
        """Let all brokers together take in memory what one alone would."""
        runtime.memory.brokers = len(self.slots)
        for slot in self.slots:
            if slot.node is not None:
                slot.node.share_memory()

    def open_one(self, slot: BrokerSlot) -> None:
        """Start a broker that is new or was closed alone: same port, same data."""
        runtime = self._running()
        if slot.node is not None:
            raise BrokerStateError(f"broker {slot.arguments.broker_name} is already running")
        try:
            node = slot.open(runtime)
            runtime.let_in(slot.address)
            runtime.choose_speaker(self._all_parts())
            namesrv = runtime.namesrv_endpoint
            also = [namesrv] if slot is self.slots[0] and namesrv is not None else []
            slot.request_faults.attach(node.parts.endpoint, *also, *_faulted(runtime))
        except BaseException:
            self.close_one(slot)
            raise

    def close_one(self, slot: BrokerSlot) -> None:
        """End a broker cleanly while the others go on; idempotent."""
        runtime = self._running()
        node, slot.node = slot.node, None
        if node is None:
            return
        try:
            runtime.shut_out(slot.address)
            runtime.choose_speaker(self._all_parts())
        finally:
            node.close()

    def _all_parts(self) -> list[BrokerParts]:
        return [slot.node.parts for slot in self.slots if slot.node is not None]

    def pause(self) -> None:
        """Accept connections and answer nothing; idempotent."""
        self._running().door.hold()

    def resume(self) -> None:
        """Answer again, what waits first; idempotent."""
        self._running().door.resume()

    def reset(self, slot: BrokerSlot, *, clock: bool = False) -> Connected:
        """Empty one broker behind its connections; requests that come meanwhile wait."""
        runtime = self._running()
        if slot.node is None:
            raise BrokerStateError(f"broker {slot.arguments.broker_name} does not run: start it")
        if clock:
            slot.arguments.clock.check_begin_again()
        door = runtime.door
        was_paused = door.pause.on
        door.hold()
        try:
            connected = slot.reset(runtime, clock=clock)
            self.journal.clear()
        except BaseException:
            self.close()  # half a broker is none
            raise
        finally:
            if not was_paused:
                door.resume()
        if connected.consumers:
            logger.warning(
                "reset_with_consumers broker %s: consumers are still connected and get what is "
                "sent from now on: %s. Shut down those that the next test does not know",
                slot.arguments.broker_name,
                "; ".join(
                    f"{name} ({', '.join(ids)})" for name, ids in connected.consumers.items()
                ),
            )
        return connected

    @property
    def grpc(self) -> GrpcFace | None:
        """Where gRPC clients are, if any may; ``BrokerStateError`` unless it runs."""
        return self._running().grpc

    def _running(self) -> Runtime:
        self.check_process()
        if self._runtime is None:
            raise BrokerStateError(f"{self!r}: call start(), or use it inside its with block")
        return self._runtime

    def close_left_over(self) -> None:
        """Close at interpreter exit what nobody closed, and say so."""
        if os.getpid() != self._process:
            return
        told = (
            f"{self!r} was left running: use it as `with EmbeddedBroker() as broker:`, or call "
            "close()"
        )
        if "pytest" in sys.modules:  # which is silent about a ResourceWarning this late
            logger.warning("%s", told)
        warnings.warn(
            told,
            ResourceWarning,
            source=self,
            stacklevel=2,
        )
        self.close()

    def _close(self, runtime: Runtime) -> None:
        with ExitStack() as last:  # each is closed, whatever another one raises
            for slot in reversed(self.slots):
                node, slot.node, slot.loses = slot.node, None, None
                if node is not None:
                    last.callback(node.close)
            runtime.close()


def _faulted(runtime: Runtime) -> list[Faulted]:
    """Give where calls over gRPC come in, which may go wrong, too."""
    return [] if runtime.grpc is None else [runtime.grpc.endpoint]


def running() -> tuple[RunningBrokers, ...]:
    """Give the brokers of this process that run, in the order of their starts."""
    return tuple(_running)


def port_of(address: str) -> int:
    """Return the port of ``host:port``, 0 of nothing."""
    return int(address.rpartition(":")[2]) if address else 0


def _close_left_over() -> None:
    for brokers in list(_running):
        brokers.close_left_over()
