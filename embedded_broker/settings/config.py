"""Broker config: values, checks, changes while running, broker.conf files.

Answers: what each option of ``embedded_broker/settings/options.py`` is set to. Must not know: who
reads it. Read on: ``embedded_broker/settings/options.py`` for the table.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from difflib import get_close_matches
from typing import Final, Literal

from attrs import frozen

from embedded_broker.settings.options import (
    ARGUMENT_NAMES,
    OPTIONS,
    PRECISIONS,
    WITHOUT_EFFECT,
    Option,
    OptionValue,
)
from rocketmq_py.errors import ConfigError

ASSIGNMENT: Final = "name=value, such as timerMaxDelaySec=3456000"
Defaults = Literal["embedded", "upstream"]


class BrokerConfig:
    """Every option with its value; also what a test sees as ``broker.config``.

    ``config["timerMaxDelaySec"]`` reads, ``config.update(timerMaxDelaySec=3456000)`` changes.
    Names and values are RocketMQ's; texts such as ``"3456000"`` or ``"true"`` are accepted.
    An unknown name or a bad value raises ``ConfigError`` that names the nearest option and the
    range, and changes nothing. ``presets`` are other defaults that a profile or limits bring;
    settings win over them.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        defaults: str = "embedded",
        presets: Mapping[str, OptionValue] | None = None,
    ) -> None:
        if defaults not in {"embedded", "upstream"}:
            raise ConfigError("defaults", defaults, "one of embedded, upstream")
        self.defaults = defaults
        upstream = defaults == "upstream"
        self._values: dict[str, OptionValue] = {
            name: option.upstream if upstream else option.default
            for name, option in OPTIONS.items()
        }
        self._values.update(presets or {})
        self._callbacks: list[Callable[[frozenset[str]], None]] = []
        self._guard: Callable[[], AbstractContextManager[object]] = nullcontext
        self._running = False
        checked = _checked(settings or {})
        self._values.update(checked)
        if upstream and "timerReleasePrecisionMs" not in checked:
            self._values["timerReleasePrecisionMs"] = self._values["timerPrecisionMs"]
        self._check_together(self._values)

    def __repr__(self) -> str:
        upstream = self.defaults == "upstream"
        told = ["defaults=upstream"] if upstream else []
        for name, value in self._values.items():
            option = OPTIONS[name]
            if value != (option.upstream if upstream else option.default):
                told.append(f"{name}={option.shown(value)}")
        return f"BrokerConfig({', '.join(told)})"

    def __getitem__(self, name: str) -> OptionValue:
        try:
            return self._values[name]
        except KeyError:
            raise KeyError(f"no option {name!r}{_nearest(name)}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def items(self) -> list[tuple[str, OptionValue]]:
        """Return every name and value, in table order."""
        return list(self._values.items())

    def int(self, name: str) -> int:
        """Return an integer option."""
        value = self._values[name]
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"option {name} is not an integer")
        return value

    def flag(self, name: str) -> bool:
        """Return a boolean option."""
        value = self._values[name]
        if not isinstance(value, bool):
            raise TypeError(f"option {name} is not a boolean")
        return value

    def text(self, name: str) -> str:
        """Return a text option."""
        value = self._values[name]
        if not isinstance(value, str):
            raise TypeError(f"option {name} is not a text")
        return value

    def update(self, **settings: object) -> None:
        """Change options of a running broker. Those of its files are set before ``start``."""
        self._change(settings, self._guard)

    def update_inside(self, settings: Mapping[str, object]) -> None:
        """Do the same for a caller that is inside the door already: request 25."""
        self._change(settings, nullcontext)

    def _change(
        self,
        settings: Mapping[str, object],
        guard: Callable[[], AbstractContextManager[object]],
    ) -> None:
        checked = _checked(settings)
        if self._running:
            for name, value in checked.items():
                if not OPTIONS[name].live and value != self._values[name]:
                    raise ConfigError(
                        name,
                        OPTIONS[name].shown(value),
                        "set before start: pass it in config={...} to EmbeddedBroker",
                    )
        self._check_together({**self._values, **checked})
        with guard():
            changed = frozenset(
                name for name, value in checked.items() if value != self._values[name]
            )
            self._values.update(checked)
            for callback in self._callbacks:
                callback(changed)

    def on_change(self, callback: Callable[[frozenset[str]], None]) -> None:
        """Call ``callback(names)`` inside the door after every ``update``."""
        self._callbacks.append(callback)

    def attach(self, guard: Callable[[], AbstractContextManager[object]]) -> None:
        """Say that a broker runs on these settings and which door guards changes."""
        self._guard = guard
        self._running = True

    def detach(self) -> None:
        """Undo ``attach`` and forget every callback: the broker is closed."""
        self._guard = nullcontext
        self._running = False
        self._callbacks.clear()

    @staticmethod
    def _check_together(values: Mapping[str, OptionValue]) -> None:
        precision, release = values["timerPrecisionMs"], values["timerReleasePrecisionMs"]
        if isinstance(precision, int) and isinstance(release, int) and precision % release:
            raise ConfigError(
                "timerReleasePrecisionMs",
                release,
                f"a divisor of timerPrecisionMs, which is {precision}",
            )


@frozen
class ConfFile:
    """What a broker.conf file says: constructor arguments, options, and lines without effect."""

    arguments: dict[str, str]
    options: dict[str, OptionValue]
    ignored: tuple[str, ...]


def read_properties(text: str) -> Iterator[tuple[str, str]]:
    """Give the names and values of a Java properties text; ``#`` and ``!`` begin comments.

    Raises ``ConfigError`` for a line without ``=``.
    """
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line[0] in "#!":
            continue
        name, separator, value = line.partition("=")
        if not separator:
            raise ConfigError("broker.conf line", line, f"a line is {ASSIGNMENT}")
        yield name.strip(), value.strip()


def parse_conf(text: str) -> ConfFile:
    """Read a broker.conf file (Java properties: ``name=value``, ``#`` and ``!`` comments).

    Names that tune threads, pools or replication of the real broker are returned in ``ignored``
    so that the caller can print them. A name that RocketMQ does not know is a ``ConfigError``.
    """
    arguments: dict[str, str] = {}
    settings: dict[str, object] = {}
    ignored: list[str] = []
    for name, value in read_properties(text):
        if name in ARGUMENT_NAMES:
            arguments[ARGUMENT_NAMES[name]] = value
        elif name in WITHOUT_EFFECT:
            ignored.append(name)
        elif name in OPTIONS and OPTIONS[name].fixed:
            if _parsed(OPTIONS[name], value) != OPTIONS[name].default:
                ignored.append(name)
        else:
            settings[name] = value
    return ConfFile(arguments, _checked(settings), tuple(ignored))


def _checked(settings: Mapping[str, object]) -> dict[str, OptionValue]:
    checked: dict[str, OptionValue] = {}
    for name, value in settings.items():
        option = OPTIONS.get(name)
        if option is None:
            raise ConfigError(name, value, _unknown(name))
        parsed = _parsed(option, value)
        if parsed is None or (option.fixed and parsed != option.default):
            raise ConfigError(name, "***" if option.secret else value, option.limit)
        checked[name] = parsed
    return checked


def _parsed(option: Option, value: object) -> OptionValue | None:
    """Return the value in the option's type and range, None when it has none."""
    if option.kind is bool:
        if isinstance(value, str):
            return {"true": True, "false": False}.get(value.strip().lower())
        return value if isinstance(value, bool) else None
    if option.kind is int:
        number = _integer(value)
        if number is None or not option.low <= number <= option.high:
            return None
        return _floor_precision(number) if option.name == "timerPrecisionMs" else number
    if not isinstance(value, str) or (option.choices and value not in option.choices):
        return None
    if option.hours and not all(_is_hour(one) for one in value.split(";")):
        return None
    return value


def _is_hour(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) < 24


def _integer(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        try:
            return int(value.strip())
        except ValueError:
            return None
    return None


def _floor_precision(number: int) -> int:
    """Round as ``MessageStoreConfig.setTimerPrecisionMs``: down to the table, 100 at least."""
    return max((one for one in PRECISIONS if one <= number), default=PRECISIONS[0])


def _nearest(name: str) -> str:
    close = get_close_matches(name, OPTIONS, n=1, cutoff=0.6)
    return f"; did you mean {close[0]} ({OPTIONS[close[0]].limit})?" if close else ""


def check_known(name: str) -> bool:
    """Say whether an option is of this broker; False for one that has no effect here.

    Raises ``ConfigError`` for an argument of ``EmbeddedBroker`` and for an unknown name.
    """
    if name in WITHOUT_EFFECT:
        return False
    if name not in OPTIONS:
        raise ConfigError(name, "...", _unknown(name))
    return True


def _unknown(name: str) -> str:
    if name in ARGUMENT_NAMES:
        return f"it is the argument {ARGUMENT_NAMES[name]}=... of EmbeddedBroker"
    if name in WITHOUT_EFFECT:
        return "RocketMQ has this option, but it has no effect in the embedded broker: leave it out"
    return f"there is no such option{_nearest(name)}"
