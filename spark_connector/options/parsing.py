"""How a user's options are taken: matched without regard to case, checked against the table.

`Given` holds the options of one use (batch read, stream read, write) and gives the value of each,
or says what is wrong with it. No value stands in a local variable of a function that raises unless
it is shown in the error anyway, because Spark can print the local variables of a traceback. Must
not know what an option means. Read on: ``table.py``.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import fields

from spark_connector.errors import OptionError
from spark_connector.options.table import BY_FIELD, OPTIONS, USES

CLIENT_PREFIX = "rocketmq."
ALIASES = {
    "namesrvaddr": "nameserver",
    "rocketmq.namesrv.addr": "nameserver",
    "rocketmq.namesrvaddr": "nameserver",
    "rocketmq.namespace": "namespace",
    "rocketmq.accesskey": "accesskey",
    "rocketmq.secretkey": "secretkey",
    "rocketmq.securitytoken": "securitytoken",
    "invalidrows": "oninvalidrow",
    "path": "topic",  # spark.read.load("T")
}
KAFKAS = {
    "kafka.bootstrap.servers": "nameserver",
    "kafka.group.id": "groupid",
    "groupidprefix": "groupid",
    "kafkaconsumer.polltimeoutms": "pulltimeoutms",
    "kafka.compression.type": "compression",
    "kafka.acks": "acceptstatus",
}
"""Options of Spark's Kafka source and sink that have another name here."""
OLD_CONNECTORS = {
    "group": "groupid",
    "consumer.group": "groupid",
    "consumer.topic": "topic",
    "consumer.tag": "subexpression",
    "consumer.offset.reset.to": "startingoffsets",
    "pull.max.batch.size": "pullbatchsize",
    "pull.timeout.ms": "pulltimeoutms",
    "pull.max.speed.per.partition": "maxoffsetspertrigger",
}
"""Options of rocketmq-spark that have another name here."""
IGNORED = ("provider", "owner", "checkpointlocation", "queryname", "outputmode")
"""Keys that Spark adds: those of CREATE TABLE (besides ``option.NAME``), and a query's own."""


class Secret:
    """A text whose ``repr`` and ``str`` are ``***``; `reveal` gives it, and it pickles.

    >>> Secret("abc"), str(Secret("abc")), Secret("abc").reveal()
    (***, '***', 'abc')
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the secret."""
        return self._text

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> "tuple[type[Secret], tuple[str]]":
        return Secret, (self._text,)


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

    `client_settings` are the texts of the options ``rocketmq.NAME`` by lower-case NAME. Every call
    raises `OptionError`.
    """

    def __init__(self, options: Mapping[str, str], use: str) -> None:
        self._use = use
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
        option = OPTIONS.get(name)
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
        known = {key: key for key, one in OPTIONS.items() if self._use in one.uses}
        known |= {alias: key for alias, key in ALIASES.items() if key in known}
        known |= {theirs: key for theirs, key in (KAFKAS | OLD_CONNECTORS).items() if key in known}
        near = [name] if name in known else difflib.get_close_matches(name, known, n=1)
        return f": did you mean {OPTIONS[known[near[0]]].name}?" if near else ""

    def __bool__(self) -> bool:
        return bool(self._values)

    def value(self, name: str) -> Any:  # Any: of the type that the table says
        """Return what an option says, else its default; blank counts as not given."""
        option = OPTIONS[name.lower()]
        given = self.secret(name)
        text = option.default if given is None else given.reveal()
        return None if text is None else option.value(text)

    def values(self, kind: type) -> dict[str, Any]:
        """Return the value of each field of a class that is named like an option."""
        names = [one.name for one in fields(kind) if one.name in BY_FIELD]
        return {name: self.value(BY_FIELD[name].name) for name in names}

    def shared_with(self, use: str) -> HiddenOptions:
        """Return the given options that another use has, too, and the settings of the client."""
        shared = [name for name in self._values if use in OPTIONS[name].uses]
        return HiddenOptions(
            {OPTIONS[name].name: self._values[name].reveal() for name in shared}
            | {CLIENT_PREFIX + name: text for name, text in self.client_settings.items()}
        )

    def secret(self, name: str) -> Secret | None:
        """Return the text of an option that must not show up anywhere."""
        value = self._values.get(name.lower())
        return Secret(value.reveal().strip()) if value and value.reveal().strip() else None
