"""Which headers of pulls differ in their numbers only, and how to read those.

A reader writes the same header again and again, but for the offset to begin at, the one that it
commits and the opaque. What lies around them is learnt from a header that was read whole, and
checked by reading a sample that was made of it. Must not know what a pull gets. Read on:
``pull_message.py``; ``../send/send_form.py`` does the same for sends.
"""

from typing import Any, Final, NamedTuple, Self

from attrs import define, field

from embedded_broker.core.consume import Checked, Pull, PullTerms
from embedded_broker.tables.peer import Peer
from rocketmq_py.protocol.codes import PullSysFlag
from rocketmq_py.protocol.headers.consume import PullMessageRequestHeader
from rocketmq_py.protocol.json_text import loads

_COMMIT: Final = b'"commitOffset":"'
_OFFSET: Final = b'"queueOffset":"'
_OPAQUE: Final = b'"opaque":'
_COMMIT_SIZE, _OFFSET_SIZE, _OPAQUE_SIZE = len(_COMMIT), len(_OFFSET), len(_OPAQUE)
_OFFSET_DIGITS_MAX: Final = 18
_OPAQUE_DIGITS_MAX: Final = 9
_SAMPLE_FIELDS: Final = {"commitOffset": "171717171717171717", "queueOffset": "181818181818181818"}
_SAMPLE_OPAQUE: Final = 191_919_191
FORMS_MAX: Final = 4096
"""So many forms of headers are remembered: one for each queue that a group reads."""

_make: Final = tuple.__new__

Pieces = tuple[bytes, bytes, bytes, bytes]
"""What lies around the three numbers of a header."""


@define(slots=True, eq=False)
class PullForm:
    """What headers that are alike have in common, and what the last checks of it have found."""

    terms: PullTerms
    is_committing: bool
    checked: Checked | None = field(default=None, init=False)
    checked_at: int = field(default=0, init=False)
    """The door's ``changes`` then: as long as there are no more, the checks hold."""

    @classmethod
    def of(cls, header: PullMessageRequestHeader, *, is_lite: bool = False) -> Self:
        """Take over what a header says, but for its own numbers."""
        flags = header.sys_flag
        terms = PullTerms(
            header.consumer_group,
            header.topic,
            header.queue_id,
            header.max_msg_nums,
            (header.subscription or "") if flags & PullSysFlag.SUBSCRIPTION else None,
            header.expression_type,
            header.sub_version,
            header.suspend_timeout_millis if flags & PullSysFlag.SUSPEND else None,
            is_lite,
        )
        return cls(terms, bool(flags & PullSysFlag.COMMIT_OFFSET))


class UsualPull(NamedTuple):
    """What a header in its usual form says; ``form`` is shared by all that have it."""

    form: PullForm
    offset: int
    commit_offset: int | None
    opaque: int

    def pull(self, peer: Peer) -> Pull:
        """Give the pull of a peer that says so."""
        return Pull(peer, self.form.terms, self.offset, self.commit_offset)


@define(eq=False)
class PullForms:
    """The forms of the headers that come.

    A form is learnt from the second header that has it, since most of those that come once do not
    come again.
    """

    _known: dict[Pieces, PullForm | None] = field(factory=dict, init=False)
    """None: there is nothing to learn from those."""
    _once: set[Pieces] = field(factory=set, init=False)
    """What one header had."""

    def read(self, header: bytes) -> UsualPull | None:
        """Read a header; None when its form is not known or its numbers are unusual."""
        pieces, commit, offset, opaque = _cut(header)
        form = self._known.get(pieces)
        if (
            form is not None
            and offset.isdigit()
            and commit.isdigit()
            and opaque.isdigit()
            and len(offset) <= _OFFSET_DIGITS_MAX
            and len(commit) <= _OFFSET_DIGITS_MAX
            and len(opaque) <= _OPAQUE_DIGITS_MAX
            and (not opaque.startswith(b"0") or len(opaque) == 1)  # as numbers of JSON are
        ):
            committed = int(commit) if form.is_committing else None
            # UsualPull(...) itself calls a function of Python's to do the same.
            return _make(UsualPull, (form, int(offset), committed, int(opaque)))
        return None

    def learn(self, header: bytes, document: dict[str, Any], form: PullForm) -> None:
        """Take a header that was read as ``document`` and has this form, unless it is known."""
        known, once = self._known, self._once
        pieces, *_ = _cut(header)
        if pieces in known:
            return
        if pieces in once:
            once.remove(pieces)
            known[pieces] = form if _is_sound(header, document, pieces) else None
            return
        if len(known) + len(once) >= FORMS_MAX:
            known.clear()
            once.clear()
        once.add(pieces)


def _cut(header: bytes) -> tuple[Pieces, bytes, bytes, bytes]:
    """Give what lies around the numbers, and both offsets and the opaque as they are written.

    Of a header in which one of them is missing it is anything, and nothing that is learnt.
    """
    commit_at = header.find(_COMMIT) + _COMMIT_SIZE
    commit_end = header.find(b'"', commit_at)
    offset_at = header.find(_OFFSET) + _OFFSET_SIZE
    offset_end = header.find(b'"', offset_at)
    opaque_at = header.find(_OPAQUE) + _OPAQUE_SIZE
    opaque_end = header.find(b",", opaque_at)
    if commit_at < offset_at:
        first, after_first, second, after = commit_at, commit_end, offset_at, offset_end
    else:
        first, after_first, second, after = offset_at, offset_end, commit_at, commit_end
    between = header[after_first:second]
    pieces: Pieces
    if opaque_at < first:  # as Go writes it
        pieces = header[:opaque_at], header[opaque_end:first], between, header[after:]
    else:
        pieces = header[:first], between, header[after:opaque_at], header[opaque_end:]
    return (
        pieces,
        header[commit_at:commit_end],
        header[offset_at:offset_end],
        header[opaque_at:opaque_end],
    )


def _is_sound(header: bytes, document: dict[str, Any], pieces: Pieces) -> bool:
    """Whether a header with other numbers is read as the same one with other numbers."""
    fields, opaque = document["extFields"], document["opaque"]
    sample = header
    for mark, value, other in (
        (_COMMIT, fields["commitOffset"], _SAMPLE_FIELDS["commitOffset"]),
        (_OFFSET, fields["queueOffset"], _SAMPLE_FIELDS["queueOffset"]),
        (_OPAQUE, str(opaque), str(_SAMPLE_OPAQUE)),
    ):
        sample = sample.replace(mark + value.encode(), mark + other.encode(), 1)
    numbers = map(str.encode, (*_SAMPLE_FIELDS.values(), str(_SAMPLE_OPAQUE)))
    like = {**document, "extFields": {**fields, **_SAMPLE_FIELDS}, "opaque": _SAMPLE_OPAQUE}
    try:
        return _cut(sample) == (pieces, *numbers) and bool(loads(sample) == like)
    except ValueError:
        return False
