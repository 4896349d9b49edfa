"""Put hooks: steps that a test adds before every put, to look at a message, change or refuse it.

Answers: which hooks of a user there are, in which order they run, and what their failures do. They
run before the broker's own hooks, on every message that is put: those of clients, but also released
timers, retries and commits. Must not know: what the broker's hooks do. Read on:
``embedded_broker/store/put_values.py`` for ``PutHook``, ``embedded_broker/lifecycle/node.py`` for
the order.
"""

from collections.abc import Iterator, Sequence

from embedded_broker.store.put_values import InnerMessage, PutHook, PutRefusal, PutResult, PutStatus
from rocketmq_py.errors import ConfigError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.properties import decode_properties, encode_properties

logger = get_logger(__name__)


class PutHooks:
    """``broker.put_hooks``: an ordered list of hooks, each with a ``name`` and a ``before_put``.

    ``before_put(message, now_ms)`` may change the message. It returns None to let the message pass,
    or a ``PutRefusal`` to refuse it. It runs inside the broker: it must not wait, and calling the
    broker from it raises ``DoorReentryError``. An exception in a hook refuses the message with code
    1 and is logged. Hooks may be added and removed at any time; they stay when the broker restarts.
    """

    def __init__(self) -> None:
        self._hooks: tuple[_Guarded, ...] = ()
        self._store_hooks: list[PutHook] | None = None

    def __repr__(self) -> str:
        return f"<put hooks: {', '.join(self.names()) or 'none'}>"

    def __iter__(self) -> Iterator[PutHook]:
        return iter([guarded.hook for guarded in self._hooks])

    def __len__(self) -> int:
        return len(self._hooks)

    def names(self) -> list[str]:
        """Return the names in the order in which the hooks run."""
        return [guarded.name for guarded in self._hooks]

    def append(self, hook: PutHook) -> None:
        """Let ``hook`` run after the others. ``ConfigError`` for a name that is taken."""
        self.insert(len(self._hooks), hook)

    def insert(self, index: int, hook: PutHook) -> None:
        """Add ``hook`` at a place in the order; ``index`` counts as in ``list.insert``."""
        if hook.name in self.names():
            raise ConfigError("put_hooks", hook.name, "a name that no other hook has")
        hooks = list(self._hooks)
        hooks.insert(index, _Guarded(hook))
        self._set(hooks)

    def remove(self, name: str) -> None:
        """Take out the hook of this name; ``KeyError`` when there is none."""
        if name not in self.names():
            raise KeyError(f"no put hook {name!r}; there are {', '.join(self.names()) or 'none'}")
        self._set([guarded for guarded in self._hooks if guarded.name != name])

    def run_before(self, store_hooks: list[PutHook]) -> None:
        """Run before the hooks of this list of a store, from now on. For the broker's start."""
        self._store_hooks = store_hooks
        self._set(self._hooks)

    def _set(self, hooks: Sequence["_Guarded"]) -> None:
        self._hooks = tuple(hooks)
        known = self._store_hooks
        if known is not None:
            # One assignment: a put on another thread sees the old list or the new one.
            known[:] = [*hooks, *(hook for hook in known if not isinstance(hook, _Guarded))]


class _Guarded:
    """A user's hook as the store sees it: its exception is a refusal, its changes are stored."""

    def __init__(self, hook: PutHook) -> None:
        self.hook = hook
        self.name = hook.name

    def before_put(self, msg: InnerMessage, now_ms: int) -> PutResult | PutRefusal | None:
        """Run the hook."""
        before, stored = msg.properties.copy(), msg.properties_bytes
        try:
            answer = self.hook.before_put(msg, now_ms)
        except Exception as error:
            logger.exception("put hook %s failed; the message is refused", self.name)
            return PutRefusal(
                PutStatus.UNKNOWN_ERROR,
                f"put hook {self.name} failed: {type(error).__name__}: {error}",
            )
        if msg.properties != before and stored is not None and stored is msg.properties_bytes:
            msg.properties_bytes = _with_changes(stored, before, msg.properties)
        return answer


def _with_changes(stored: bytes, before: dict[str, str], after: dict[str, str]) -> bytes:
    """Repeat what a hook changed on the form that is stored.

    That form may say more than ``properties``: a released message keeps the delay it asked for.
    """
    kept = decode_properties(stored.decode("utf-8", "replace"))
    for name in before.keys() - after.keys():
        kept.pop(name, None)
    kept.update({name: value for name, value in after.items() if before.get(name) != value})
    return encode_properties(kept)
