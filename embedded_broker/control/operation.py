"""Operation of the control face: one row of its table.

Answers: which method and path, what may be given, what is called and what it answers. Routes,
checks and the OpenAPI page are made from these rows. Must not know: HTTP's own things (headers,
bodies, status codes). Read on: ``operations/`` for the rows, ``app.py`` for who calls them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Any, Final, Literal, get_type_hints

from attrs import field, frozen

from embedded_broker.api.broker import EmbeddedBroker
from embedded_broker.api.views import Bodies
from embedded_broker.control.fault_numbers import FaultNumbers
from embedded_broker.control.fields import Field, FieldType

WAIT_MAX_S: Final = 300
"""The longest wait that one request may ask for, in seconds."""
PAGE_MAX: Final = 1000
"""Most items of one page of an answer."""
BODIES_MAX: Final = 48 << 20
"""Bytes that the compressed bodies of an answer become at most: more fill it, in base64 alone."""
BROKER: Final = Field(
    "broker", FieldType.TEXT, "Which broker of a cluster, by its name; without it the first one."
)
TIMEOUT: Final = Field(
    "timeout",
    FieldType.NUMBER,
    "How many seconds of wall time to wait at most.",
    default=5,
    low=0,
    high=WAIT_MAX_S,
)
_IN_PATH: Final = re.compile(r"\{(\w+)\}")


def answer_bodies() -> Bodies:
    """Begin to decompress the bodies of one answer."""
    return Bodies(BODIES_MAX, "one answer (ask for fewer, for example with limit)")


@frozen(kw_only=True)
class Call:
    """One request: which broker it is about, and what was given, checked, by name."""

    broker: EmbeddedBroker
    brokers: Sequence[EmbeddedBroker]
    given: Mapping[str, Any]  # Any: each value has the type of its field
    faults: FaultNumbers
    closing: Event
    """Set when the face is closed: whoever waits gives up."""

    def __getitem__(self, name: str) -> Any:
        return self.given[name]

    def only(self, *names: str) -> dict[str, Any]:
        """Give these fields as arguments of a call."""
        return {name: self.given[name] for name in names}


@frozen
class Operation:
    """One row: ``act`` is called with the request, and its result is the answer.

    Fields in the path are texts and required. The others come in the query of a GET or DELETE, and
    in the JSON object of a POST. ``changes_life`` says that the broker may be away meanwhile: such
    requests are handled one after the other.
    """

    method: Literal["GET", "POST", "DELETE"]
    path: str
    act: Callable[[Call], object]
    fields: tuple[Field, ...] = ()
    changes_life: bool = False
    path_fields: tuple[Field, ...] = field(init=False)

    @path_fields.default
    def _of_path(self) -> tuple[Field, ...]:
        return tuple(
            Field(name, FieldType.TEXT, _PATH_MEANINGS[name], required=True)
            for name in _IN_PATH.findall(self.path)
        )

    @property
    def name(self) -> str:
        """What it is called in the OpenAPI document."""
        return self.act.__name__

    @property
    def summary(self) -> str:
        """What it does, in a sentence or two."""
        return " ".join((self.act.__doc__ or "").split())

    @property
    def answer(self) -> Any:  # Any: a type annotation
        """The type of its answer."""
        return get_type_hints(self.act)["return"]

    @property
    def has_body(self) -> bool:
        """Whether what is given comes as JSON."""
        return self.method == "POST"

    @property
    def is_of_one_broker(self) -> bool:
        """Whether it takes the field ``broker``. The others are about all brokers together."""
        return not any(one.name == BROKER.name for one in self.fields)


_PATH_MEANINGS: Final = {
    "topic": "Name of a topic.",
    "group": "Name of a consumer group.",
    "id": "A unique id, or an offset id.",
    "number": "Number of a fault.",
    "token": "Number of a token of work.",
    "stage": "Name of a service of the timer store.",
}
