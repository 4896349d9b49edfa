"""How a command reaches an address: hooks, signature, the open connection, GO_AWAY.

Client side of the original's ``NettyRemotingClient``. Connections, and who waits how long for one,
are in ``connections.py``. Must not know topics or routes. Read on in ``transport/channel.py``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from attrs import define, field

from rocketmq_py.client.answers import is_refusal
from rocketmq_py.client.application_faults import ApplicationFaults
from rocketmq_py.client.background import WorkerPool
from rocketmq_py.client.connections import Connections, Wait
from rocketmq_py.client.hooks import RPCHook
from rocketmq_py.clock import monotonic
from rocketmq_py.config import ClientConfig, Credentials
from rocketmq_py.errors import MQClientException, RocketMQError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.codes import FLAG_ONEWAY, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.transport.calls import Done
from rocketmq_py.transport.channel import Channel, future_of
from rocketmq_py.transport.runs import RequestRun

if TYPE_CHECKING:
    from rocketmq_py.client.namespaces import Namespace

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
    _faults: ApplicationFaults = field(factory=partial(ApplicationFaults, _log), init=False)
    namespace: Namespace | None = field(init=False)
    """What servers know names by; None: as the program does."""

    @namespace.default
    def _namespace_of_config(self) -> Namespace | None:
        v1, v2 = self._config.namespace, self._config.namespace_v2
        if not (v1 or v2):
            return None
        from rocketmq_py.client.namespaces import Namespace  # most clients have none

        return Namespace(v1, v2)

    # --- calls -----------------------------------------------------------------------------

    @property
    def leaves_as_is(self) -> bool:
        """Whether commands are sent just as they are given: nothing looks at, or adds, fields."""
        return not self._hooks and self._config.credentials is None and self.namespace is None

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
        if not self.leaves_as_is:
            used = self._prepare(address, command)
        answer = channel.invoke(command, timeout_ms, stop)
        if not answer.code and not self._hooks:
            return self.arrived(command, answer)
        call = _Call(self, address, command, deadline, used)
        while call.goes_again(channel, answer):
            channel = self.connections.channel(address, self._wait(_left_ms(deadline)), stop)
            answer = channel.invoke(command, _left_ms(deadline), stop)
        self._after(address, command, answer)
        return self.arrived(command, answer)

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
        call = _Call(self, address, command, deadline, used, done)
        channel = self.connections.get(address)
        if channel is not None:
            call.channel = channel
            channel.begin(command, timeout_ms, call)
        else:
            self.reach(call, None if wait is None else wait())

    def reach(self, call: _Call, wait: Wait | None = None) -> None:
        """Make a call that is prepared as soon as there is a connection."""
        command, done = call.command, call.done

        def reached(channel: Channel | None, error: RocketMQError | None) -> None:
            if channel is None:
                done(None, error)
                return
            call.channel = channel
            try:
                channel.begin(command, _left_ms(call.deadline), call)
            except RocketMQError as trouble:
                done(None, trouble)

        if wait is None:
            wait = self._wait(_left_ms(call.deadline))
        self.connections.reach(call.address, wait, reached, size=len(command.body))

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
        calls = []
        for command, done in zip(commands, dones, strict=True):
            used = self._prepare(address, command)
            calls.append(_Call(self, address, command, deadline, used, done, channel))
        channel.begin_many(commands, _left_ms(deadline), calls)

    def begin_run(self, address: str, run: RequestRun, timeout_ms: float) -> None:
        """Make the calls of a run with one write; it is ended when each has its outcome.

        Raises, instead of ending it, what `invoke` raises before something is written.
        """
        if not self.leaves_as_is:  # each has fields of its own
            self.begin_many(address, run.commands(), timeout_ms, run.dones())
            return
        deadline = monotonic() + timeout_ms / 1000
        channel = self.connections.channel(address, self._wait(timeout_ms))
        run.ended = partial(self._end_run, channel, deadline, run.ended)
        channel.begin_run(run, _left_ms(deadline))

    def _end_run(
        self,
        channel: Channel,
        deadline: float,
        ended: Callable[[RequestRun], None],
        run: RequestRun,
    ) -> None:
        """End a run, after what was answered by GO_AWAY went once more, each by itself."""
        run.ended = ended
        away = {
            number: one
            for number, one in enumerate(run.outcomes)
            if isinstance(one, RemotingCommand) and one.code == ResponseCode.GO_AWAY
        }
        if not away:
            ended(run)
            return
        run.again(len(away))
        address = channel.address
        for number, answer in away.items():
            done = partial(run.end, number)
            _Call(self, address, run.command(number), deadline, None, done, channel)(answer, None)

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

    # --- before and after -------------------------------------------------------------------

    def can_renew(self, answer: RemotingCommand) -> bool:
        """Whether the answer refuses credentials of a source that may give others."""
        return not isinstance(self._config.credentials, Credentials) and is_refusal(answer)

    def renew(
        self, address: str, command: RemotingCommand, refused: Credentials
    ) -> Credentials | None:
        """Prepare a command once more, with other credentials than the refused ones.

        Returns them, or None when the source has no others. Raises what a hook raises.
        """
        try:
            if not self._has_others(refused):
                return None
        except Exception as error:  # noqa: BLE001 - code of the application; the refusal stands
            # Only what the SDK itself says is known to hold no secret.
            shown = (
                error
                if isinstance(error, RocketMQError)
                else MQClientException(type(error).__name__)
            )
            self._faults.tell("renewal of credentials", type(self._config.credentials), shown)
            return None
        return self._prepare(address, command)

    def _has_others(self, refused: Credentials) -> bool:
        source = self._config.credentials
        renew: Callable[[Credentials], bool] | None = getattr(source, "renew", None)
        if renew is not None:
            return renew(refused)
        return callable(source) and source() != refused

    def in_background(self, task: Callable[..., None], *args: object) -> bool:
        """Do what may block, such as reading a file; False: there is no room."""
        return self._background.submit(task, *args)

    def show(self, address: str, command: RemotingCommand, answer: RemotingCommand) -> None:
        """Let hooks see an answer; one that blocks must not keep others from being read."""
        if self._hooks:
            self._run_user_code(self._after, address, command, answer)

    def _prepare(self, address: str, command: RemotingCommand) -> Credentials | None:
        """Name things as servers do, run hooks and sign; return the credentials that signed."""
        if self.namespace is not None:
            self.namespace.leaves(command)
        for hook in self._hooks:
            hook.before_request(address, command)
        source = self._config.credentials
        if source is None:
            return None
        credentials = source if isinstance(source, Credentials) else source()
        _sign(command, credentials)
        return credentials

    def arrived(self, command: RemotingCommand, answer: RemotingCommand) -> RemotingCommand:
        """Give an answer as the program names things; hooks see what is on the wire."""
        if self.namespace is None:
            return answer
        return self.namespace.arrives(command.code, answer)

    def _after(self, address: str, command: RemotingCommand, answer: RemotingCommand) -> None:
        for hook in self._hooks:
            try:
                hook.after_response(address, command, answer)
            except Exception as error:  # noqa: BLE001 - a hook cannot break calls
                self._faults.tell("RPC hook", hook, error)


def _nobody(answer: RemotingCommand | None, error: RocketMQError | None) -> None:
    """Take the outcome of a call whose caller waits for it."""


@define(eq=False, repr=False)
class _Call:
    """One call, however often it is sent: the one rule of what an answer is followed by.

    It goes once more on another connection after GO_AWAY, and once more after a refusal of
    credentials for which there are others. Whoever waits drives it by `goes_again`; a call that
    nobody waits for is itself called with what became of the request.
    """

    remoting: Remoting
    address: str
    command: RemotingCommand
    deadline: float
    used: Credentials | None
    done: Done = _nobody
    channel: Channel | None = None
    went_away: bool = False
    renewed: bool = False

    def goes_again(self, channel: Channel, answer: RemotingCommand) -> bool:
        """Whether the call is to be sent once more; may wait for other credentials."""
        return self._leaves(channel, answer) or (self._is_refused(answer) and self._renews())

    def __call__(self, answer: RemotingCommand | None, error: RocketMQError | None) -> None:
        """Take what became of the request, on the thread that reads answers; never blocks."""
        if answer is None or not answer.code:
            self._end(answer, error)
        elif self.channel is not None and self._leaves(self.channel, answer):
            self.remoting.reach(self)
        elif not (
            self._is_refused(answer) and self.remoting.in_background(self._renewed_or, answer)
        ):
            self._end(answer, None)

    def _leaves(self, channel: Channel, answer: RemotingCommand) -> bool:
        if self.went_away or answer.code != ResponseCode.GO_AWAY:
            return False
        self.went_away = True
        self.remoting.connections.leave(channel)
        return True

    def _is_refused(self, answer: RemotingCommand) -> bool:
        return self.used is not None and not self.renewed and self.remoting.can_renew(answer)

    def _renews(self) -> bool:
        used, self.renewed = self.used, True
        if used is None:
            return False
        self.used = self.remoting.renew(self.address, self.command, used)
        return self.used is not None

    def _renewed_or(self, answer: RemotingCommand) -> None:
        """Go once more with other credentials; without any the answer stands."""
        try:
            again = self._renews()
        except RocketMQError as error:
            self.done(None, error)
        except Exception as error:  # noqa: BLE001 - a hook's; somebody waits for an outcome
            stopped = MQClientException(f"a hook stopped the call, sent again: {error}")
            stopped.__cause__ = error
            self.done(None, stopped)
        else:
            if again:
                self.remoting.reach(self)
            else:
                self._end(answer, None)

    def _end(self, answer: RemotingCommand | None, error: RocketMQError | None) -> None:
        if answer is not None:
            self.remoting.show(self.address, self.command, answer)
            answer = self.remoting.arrived(self.command, answer)
        self.done(answer, error)


def _left_ms(deadline: float) -> float:
    return max(0.0, (deadline - monotonic()) * 1000)


def _sign(command: RemotingCommand, credentials: Credentials) -> None:
    """Add key and signature; runs after every hook, because it covers all fields."""
    from rocketmq_py.protocol import signing  # hashing is not loaded by clients without a key

    fields = command.ext_fields
    fields[signing.ACCESS_KEY] = credentials.access_key
    fields.pop(signing.SECURITY_TOKEN, None)  # of former credentials, when it is sent again
    if credentials.security_token is not None:
        fields[signing.SECURITY_TOKEN] = credentials.security_token
    fields[signing.SIGNATURE] = signing.sign(credentials.secret_key, fields, command.body)
