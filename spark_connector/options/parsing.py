"""How a user's options are taken: matched without regard to case, checked against a table.

`Given` holds the options of one use (batch read, stream read, write) and gives each as a text, a
word, a switch or a number, or says what is wrong with it. No value stands in a local variable of
a function that raises unless it is shown in the error anyway, because Spark can print the local
variables of a traceback. Must not know what an option means: that is ``options.py``.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping

from attrs import frozen

from spark_connector.errors import OptionError
from spark_connector.options.secret import Secret

__all__ = ["USES", "Given", "HiddenOptions", "Option", "OtherUseError"]

USES = {"B": "batch reads", "S": "streaming reads", "W": "writes"}
CLIENT_PREFIX = "rocketmq."
ALIASES = {
    "namesrvaddr": "nameserver",
    "rocketmq.namesrv.addr": "nameserver",
    "rocketmq.namesrvaddr": "nameserver",
    "rocketmq.namespace": "namespace",
    "rocketmq.accesskey": "accesskey",
    "rocketmq.secretkey": "secretkey",
    "rocketmq.securitytoken": "securitytoken",
    "path": "topic",  # spark.read.load("T")
}
IGNORED = ("provider", "owner", "checkpointlocation", "queryname", "outputmode")
"""Keys that Spark adds: those of CREATE TABLE (besides ``option.NAME``), and a query's own."""

NUMBER_MOST = (1 << 63) - 1


@frozen
class Option:
    """One option: `kind` is text, int, bool, json or one of several words joined by ``|``.

    `uses` holds letters of `USES`; `low` and `high` are the limits of an int; `meaning` is what
    users are told about it.
    """

    name: str
    kind: str
    default: str | None
    uses: str
    low: int = 0
    high: int = NUMBER_MOST
    meaning: str = ""


class HiddenOptions(Mapping[str, str]):
    """A user's options, whose ``repr`` shows names only: Spark may print local variables.

    >>> HiddenOptions({"secretKey": "hush", "topic": "T"})
    HiddenOptions(secretKey, topic)
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)

    def __getitem__(self, name: str) -> str:
        return self._options[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def __repr__(self) -> str:
        return f"HiddenOptions({', '.join(self._options)})"


class OtherUseError(OptionError):
    """An option exists, but not for what is being done."""


class Given:
    """A user's options for one use, under their lower-case names, each checked when read.

    ``table`` has every option by its lower-case name. `client_settings` are the texts of the
    options ``rocketmq.NAME`` by lower-case NAME. Every call raises `OptionError`.
    """

    def __init__(self, options: Mapping[str, str], use: str, table: Mapping[str, Option]) -> None:
        self._use = use
        self._table = table
        self._values: dict[str, Secret] = {}
        self.client_settings: dict[str, str] = {}
        for key in options:
            self._take(str(key), Secret(str(options[key])))

    def _take(self, key: str, value: Secret) -> None:
        name = key.lower()
        # Settings of the client match without underscores, so secrets among them must, too.
        plain = name.replace("_", "") if name.startswith(CLIENT_PREFIX) else name
        name = ALIASES.get(plain, name)
        if name in IGNORED or name.startswith("option."):
            return
        if name.startswith(CLIENT_PREFIX):
            self.client_settings[name.removeprefix(CLIENT_PREFIX)] = value.reveal()
            return
        option = self._table.get(name)
        if option is None:
            raise OptionError(f"unknown option {key}{self._nearest(name)}")
        if self._use not in option.uses:
            raise OtherUseError(
                f"option {option.name} is not for {USES[self._use]}, only for "
                f"{' and '.join(USES[use] for use in option.uses)}"
            )
        if name in self._values and self._values[name] != value:
            raise OptionError(f"option {option.name} is given twice, under two names")
        self._values[name] = value

    def _nearest(self, name: str) -> str:
        known = {key: key for key, one in self._table.items() if self._use in one.uses}
        known |= {alias: key for alias, key in ALIASES.items() if key in known}
        near = difflib.get_close_matches(name, known, n=1)
        return f": did you mean {self._table[known[near[0]]].name}?" if near else ""

    def __bool__(self) -> bool:
        return bool(self._values)

    def text(self, name: str) -> str | None:
        """Return the text of an option; blank counts as not given, which gives its default."""
        value = self._values.get(name.lower())
        return (value.reveal().strip() if value else "") or self._table[name.lower()].default

    def secret(self, name: str) -> Secret | None:
        """Return the text of an option that must not show up anywhere."""
        value = self._values.get(name.lower())
        return Secret(value.reveal().strip()) if value and value.reveal().strip() else None

    def word(self, name: str) -> str:
        """Return one of an option's words."""
        kind = self._table[name.lower()].kind
        value = self.text(name) or ""
        for word in kind.split("|"):
            if word.lower() == value.lower():
                return word
        raise OptionError(f"option {name} = {value!r}: must be one of {kind.replace('|', ', ')}")

    def flag(self, name: str) -> bool:
        """Return a switch."""
        value = (self.text(name) or "false").lower()
        if value not in {"true", "false"}:
            raise OptionError(f"option {name} = {value!r}: must be true or false")
        return value == "true"

    def number(self, name: str) -> int | None:
        """Return a whole number within the option's limits, None when it is not given."""
        option = self._table[name.lower()]
        value = self.text(name)
        if value is None:
            return None
        if not re.fullmatch(r"-?[0-9]{1,19}", value) or not (
            option.low <= int(value) <= option.high
        ):
            limit = f"at least {option.low}"
            if option.high != NUMBER_MOST:
                limit = f"{option.low} to {option.high}"
            raise OptionError(f"option {name} = {value!r}: must be a whole number, {limit}")
        return int(value)

    def count(self, name: str) -> int:
        """Return a whole number that has a default."""
        value = self.number(name)
        if value is None:
            raise OptionError(f"option {name} is empty: give a whole number")
        return value

    def json(self, name: str) -> object:
        """Return the value of a JSON option, None when it is not given."""
        value = self.text(name)
        if value is None:
            return None
        try:
            return json.loads(value)
        except ValueError as error:
            raise OptionError(f"option {name} is no JSON: {error}") from None
