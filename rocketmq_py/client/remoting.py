"""How a command reaches an address: hooks, signature, the open connection, GO_AWAY.

Client side of the original's ``NettyRemotingClient``. Connections, and who waits how long for one,
are in ``connections.py``. Must not know topics or routes. Read on in ``transport/channel.py``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial

from attrs import define

from rocketmq_py.client.answers import is_refusal
from rocketmq_py.client.background import WorkerPool
from rocketmq_py.client.connections import Connections, Wait
from rocketmq_py.client.hooks import RPCHook
from rocketmq_py.clock import monotonic
from rocketmq_py.config import ClientConfig, Credentials
from rocketmq_py.errors import RocketMQError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.codes import FLAG_ONEWAY, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.transport.calls import Done
from rocketmq_py.transport.channel import Channel, future_of
from rocketmq_py.transport.runs import Run

_log = get_logger(__name__)


@define(eq=False, repr=False)
class Remoting:
    """All calls of one client instance. Every one is safe from any thread.

    ``wait`` says how long a call may wait for its connection; usually ``connect_timeout``, but
    not longer than the call.
    """

    connections: Connections
    _config: ClientConfig
    _hooks: tuple[RPCHook, ...]
    _background: WorkerPool
    _run_user_code: Callable[..., None]

    # --- calls -----------------------------------------------------------------------------

    @property
    def leaves_as_is(self) -> bool:
        """Whether commands are sent just as they are given: nothing looks at, or adds, fields."""
        return not self._hooks and self._config.credentials is None

    def invoke(
        self,
        address: str,
        command: RemotingCommand,
        timeout_ms: float,
        wait: Wait | None = None,
        stop: threading.Event | None = None,
    ) -> RemotingCommand:
        """Call and wait, no longer than until ``stop`` is set; the answer may have any code.

        Raises `RemotingConnectException`, `RemotingSendRequestException`,
        `RemotingTimeoutException`, `RemotingTooMuchRequestException`, and what a hook raises.
        """
        deadline = monotonic() + timeout_ms / 1000
        channel = self.connections.get(address)
        if channel is None:
            channel = self.connections.channel(address, wait or self._wait(timeout_ms), stop)
            timeout_ms = _left_ms(deadline)
        used = None
        if self._hooks or self._config.credentials is not None:
            used = self._prepare(address, command)
        answer = channel.invoke(command, timeout_ms, stop)
        if answer.code and answer.code == ResponseCode.GO_AWAY:
            # The server is closing: once more, on a connection of its own.
            self.connections.leave(channel)
            answer = self._invoke_again(address, command, deadline, stop)
        if answer.code and used is not None and self._renewed(answer, used):
            self._prepare(address, command)
            answer = self._invoke_again(address, command, deadline, stop)
        if self._hooks:
            self._after(address, command, answer)
        return answer

    def _invoke_again(
        self,
        address: str,
        command: RemotingCommand,
        deadline: float,
        stop: threading.Event | None,
    ) -> RemotingCommand:
        channel = self.connections.channel(address, self._wait(_left_ms(deadline)), stop)
        return channel.invoke(command, _left_ms(deadline), stop)

    def _wait(self, timeout_ms: float) -> Wait:
        return Wait(min(timeout_ms, self._config.connect_timeout))

    def begin(
        self,
        address: str,
        command: RemotingCommand,
        timeout_ms: float,
        done: Done,
        wait: Callable[[], Wait] | None = None,
    ) -> None:
        """Call without waiting, also not for the connection.

        ``done`` gets the outcome on any thread and must not block; ``wait`` is asked when there is
        no connection yet. May raise, instead of calling ``done``, what a hook raises and what
        `invoke` raises before the request is written.
        """
        deadline = monotonic() + timeout_ms / 1000
        used = self._prepare(address, command)
        channel = self.connections.get(address)
        if channel is not None:
            asked = _Asked(self, channel, command, deadline, done, used)
            channel.begin(command, timeout_ms, asked)
        else:
            self._reach(address, command, deadline, done, used, None if wait is None else wait())

    def _reach(
        self,
        address: str,
        command: RemotingCommand,
        deadline: float,
        done: Done,
        used: Credentials | None = None,
        wait: Wait | None = None,
        *,
        last: bool = False,
    ) -> None:
        """Make a call that is prepared as soon as there is a connection.

        ``last``: whatever comes is told, and it does not go once more.
        """

        def reached(channel: Channel | None, error: RocketMQError | None) -> None:
            if channel is None:
                done(None, error)
                return
            outcome: Done = done
            if not last:
                outcome = _Asked(self, channel, command, deadline, done, used)
            try:
                channel.begin(command, _left_ms(deadline), outcome)
            except RocketMQError as trouble:
                done(None, trouble)

        if wait is None:
            wait = self._wait(_left_ms(deadline))
        self.connections.reach(address, wait, reached, size=len(command.body))

    def begin_many(
        self,
        address: str,
        commands: Sequence[RemotingCommand],
        timeout_ms: float,
        dones: Sequence[Done],
    ) -> None:
        """Make many calls with one write; each of ``dones`` gets the outcome of its command.

        Raises, instead of calling any of them, what `invoke` raises before something is written.
        """
        deadline = monotonic() + timeout_ms / 1000
        channel = self.connections.channel(address, self._wait(timeout_ms))
        outcomes = []
        for command, done in zip(commands, dones, strict=True):
            used = self._prepare(address, command)
            outcomes.append(_Asked(self, channel, command, deadline, done, used))
        channel.begin_many(commands, _left_ms(deadline), outcomes)

    def begin_run(self, address: str, run: Run, timeout_ms: float) -> None:
        """Make the calls of a run with one write; it is ended when each has its outcome.

        Raises, instead of ending it, what `invoke` raises before something is written.
        """
        if not self.leaves_as_is:  # each has fields of its own
            self.begin_many(address, run.commands(), timeout_ms, run.dones())
            return
        deadline = monotonic() + timeout_ms / 1000
        channel = self.connections.channel(address, self._wait(timeout_ms))
        run.ended = partial(self._send_away, channel, deadline, run.ended)
        channel.begin_run(run, _left_ms(deadline))

    def _send_away(
        self, channel: Channel, deadline: float, ended: Callable[[Run], None], run: Run
    ) -> None:
        """End a run, after what was answered by GO_AWAY went once more, each by itself."""
        run.ended = ended
        told = [
            number
            for number, one in enumerate(run.outcomes)
            if isinstance(one, RemotingCommand) and one.code == ResponseCode.GO_AWAY
        ]
        if not told:
            ended(run)
            return
        self.connections.leave(channel)
        run.again(len(told))
        for number in told:
            done = partial(run.end, number)
            self._reach(channel.address, run.command(number), deadline, done, last=True)

    def goes_again(self, asked: _Asked, answer: RemotingCommand) -> bool:
        """Look at an answer: hooks see it, and the call can go once more.

        That is after GO_AWAY, and after a refusal of credentials for which there are others.
        """
        channel, command, deadline = asked.channel, asked.command, asked.deadline
        if answer.code == ResponseCode.GO_AWAY:
            self.connections.leave(channel)
            self._reach(channel.address, command, deadline, asked.done, last=True)
            return True
        if answer.code and asked.used is not None and self._can_renew(answer):
            # Renewing may read a file, which is nothing for the thread that reads answers.
            refused = channel.address, command, deadline, (answer, asked.used), asked.done
            if self._background.submit(self._again_when_renewed, *refused):
                return True
        if self._hooks:
            # A hook that blocks must not keep other answers from being read.
            self._run_user_code(self._after, channel.address, command, answer)
        return False

    def invoke_async(
        self, address: str, command: RemotingCommand, timeout_ms: float
    ) -> Future[RemotingCommand]:
        """Call without waiting; every outcome, also a failed connect, is in the future.

        It never stays open longer than ``timeout_ms``. Its callbacks run on the thread that has
        read the answer, so they must not block.
        """
        return future_of(lambda done: self.begin(address, command, timeout_ms, done))

    def invoke_oneway(
        self,
        address: str,
        command: RemotingCommand,
        timeout_ms: float,
        stop: threading.Event | None = None,
    ) -> None:
        """Write a request that has no answer; raises as `invoke`.

        Waits for its connection no longer than until ``stop`` is set.
        """
        deadline = monotonic() + timeout_ms / 1000
        channel = self.connections.channel(address, self._wait(timeout_ms), stop)
        command.flag |= FLAG_ONEWAY
        self._prepare(address, command)
        channel.invoke_oneway(command, _left_ms(deadline))

    def post(self, address: str, command: RemotingCommand) -> None:
        """Leave a request that has no answer to its connection, without waiting for anything.

        Without a connection one is opened for the next time. Raises `RemotingException` when it
        cannot be left.
        """
        command.flag |= FLAG_ONEWAY
        self._prepare(address, command)
        trouble: list[RocketMQError] = []

        def reached(channel: Channel | None, error: RocketMQError | None) -> None:
            try:
                if channel is not None:
                    channel.invoke_oneway(command, 0)
            except RocketMQError as failure:
                error = failure
            if error is not None:
                trouble.append(error)

        wait = Wait(self._config.connect_timeout)
        self.connections.reach(address, wait, reached, size=len(command.body))
        if trouble:
            raise trouble[0]

    def _again_when_renewed(
        self,
        address: str,
        command: RemotingCommand,
        deadline: float,
        refused: tuple[RemotingCommand, Credentials],
        done: Done,
    ) -> None:
        answer, used = refused
        if not self._renewed(answer, used):
            if self._hooks:
                self._after(address, command, answer)
            done(answer, None)
            return
        try:
            self._prepare(address, command)
        except RocketMQError as error:
            done(None, error)
            return
        self._reach(address, command, deadline, done, last=True)

    def _can_renew(self, answer: RemotingCommand) -> bool:
        """Whether the answer refuses credentials of a source that may give others."""
        return hasattr(self._config.credentials, "renew") and is_refusal(answer)

    def _renewed(self, answer: RemotingCommand, used: Credentials) -> bool:
        """Ask the source for other credentials than the refused ones; True when it has some."""
        if not self._can_renew(answer):
            return False
        try:
            return bool(self._config.credentials.renew(used))  # type: ignore[union-attr]
        except Exception:  # noqa: BLE001 - code of the application; the refusal stands
            _log.exception("credentials cannot be renewed")
            return False

    def _prepare(self, address: str, command: RemotingCommand) -> Credentials | None:
        """Run hooks and sign; return the credentials that signed."""
        for hook in self._hooks:
            hook.before_request(address, command)
        source = self._config.credentials
        if source is None:
            return None
        credentials = source if isinstance(source, Credentials) else source()
        _sign(command, credentials)
        return credentials

    def _after(self, address: str, command: RemotingCommand, answer: RemotingCommand) -> None:
        for hook in self._hooks:
            try:
                hook.after_response(address, command, answer)
            except Exception:  # noqa: BLE001 - a hook cannot break calls
                _log.exception("RPC hook failed after_response hook=%r", hook)


@define(eq=False, repr=False)
class _Asked:
    """A call that nobody waits for; it is called with its outcome."""

    remoting: Remoting
    channel: Channel
    command: RemotingCommand
    deadline: float
    done: Done
    used: Credentials | None

    def __call__(self, answer: RemotingCommand | None, error: RocketMQError | None) -> None:
        """Take the outcome for ``done``, unless the call goes once more."""
        if answer is None or not self.remoting.goes_again(self, answer):
            self.done(answer, error)


def _left_ms(deadline: float) -> float:
    return max(0.0, (deadline - monotonic()) * 1000)


def _sign(command: RemotingCommand, credentials: Credentials) -> None:
    """Add key and signature; runs after every hook, because it covers all fields."""
    from rocketmq_py.protocol import signing  # hashing is not loaded by clients without a key

    fields = command.ext_fields
    fields[signing.ACCESS_KEY] = credentials.access_key
    if credentials.security_token is not None:
        fields[signing.SECURITY_TOKEN] = credentials.security_token
    fields[signing.SIGNATURE] = signing.sign(credentials.secret_key, fields, command.body)
