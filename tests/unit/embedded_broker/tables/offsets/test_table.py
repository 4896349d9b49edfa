"""Committed offsets by themselves."""

from __future__ import annotations

from embedded_broker.tables.offsets.table import NOT_STORED, OffsetTable
from rocketmq_py.protocol.lenient_json import loads_lenient


def test_an_offset_is_kept_as_it_was_given_backwards_too() -> None:
    table = OffsetTable()
    assert table.query("g", "T", 0) == NOT_STORED
    for offset in (7, 3):
        table.commit("g", "T", 0, offset)
        assert table.query("g", "T", 0) == offset
    assert table.query("g", "T", 1) == NOT_STORED
    assert table.query("h", "T", 0) == NOT_STORED


def test_topics_and_groups_are_listed() -> None:
    table = OffsetTable()
    table.commit("g", "T", 0, 1)
    table.commit("g", "U", 0, 1)
    table.commit("h", "T", 2, 5)
    assert table.topics_of("g") == ["T", "U"]
    assert table.groups() == ["g", "h"]
    assert table.queues("h", "T") == {2: 5}
    assert table.queues("h", "U") == {}


def test_the_file_of_a_real_broker_is_read() -> None:
    text = b'{"offsetTable":{"%RETRY%G@G":{0:0\n},"T@G":{0:5,1:6},"broken":{0:1}}}'
    table = OffsetTable()
    table.load_document(loads_lenient(text))
    assert table.queues("G", "T") == {0: 5, 1: 6}
    assert table.query("G", "%RETRY%G", 0) == 0
    again = OffsetTable()
    again.load_document(table.to_document())
    assert again.to_document() == table.to_document()


def test_on_changed_is_called_once_until_the_change_is_saved() -> None:
    table = OffsetTable()
    calls: list[bool] = []
    table.on_changed = lambda: calls.append(table.changed)
    table.commit("g", "T", 0, 1)
    table.commit("g", "T", 0, 2)
    assert calls == [True]


def test_a_reset_is_told_once_and_counts_as_committed_at_once() -> None:
    table = OffsetTable()
    table.commit("g", "T", 0, 9)
    assert not table.is_reset("g", "T", 0)
    table.reset("g", "T", 0, 3, tell=True)
    table.reset("g", "T", 1, 4, tell=False)
    assert (table.query("g", "T", 0), table.query("g", "T", 1)) == (3, 4)
    assert (table.is_reset("g", "T", 0), table.is_reset("g", "T", 1)) == (True, False)
    assert table.take_reset("g", "T", 1) is None
    assert table.take_reset("g", "T", 0) == 3
    assert table.take_reset("g", "T", 0) is None
    assert not table.is_reset("g", "T", 0)


def test_a_reset_is_saved_as_an_offset_and_its_notice_is_not() -> None:
    table = OffsetTable()
    calls = []
    table.on_changed = lambda: calls.append(1)
    table.reset("g", "T", 0, 3, tell=True)
    assert (table.changed, calls) == (True, [1])
    again = OffsetTable()
    again.load_document(table.to_document())
    assert again.query("g", "T", 0) == 3
    assert not again.is_reset("g", "T", 0)


def test_whoever_listens_hears_of_offsets_that_move_and_of_no_others() -> None:
    table = OffsetTable()
    moves: list[tuple[str, str, int, int, int]] = []
    table.on_moved = lambda *move: moves.append(move)
    for offset in (5, 5, 7, 2):
        table.commit("g", "T", 1, offset)
    assert moves == [("g", "T", 1, -1, 5), ("g", "T", 1, 5, 7), ("g", "T", 1, 7, 2)]
