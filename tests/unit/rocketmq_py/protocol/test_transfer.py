"""Reports and pieces of HA transfer, in any cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_py.errors import FrameError
from rocketmq_py.protocol.transfer import (
    PIECE_SIZE_MAX,
    Piece,
    PieceDecoder,
    ReportDecoder,
    encode_piece,
    encode_report,
)


def test_the_bytes_are_those_of_the_original() -> None:
    assert encode_report(258) == bytes.fromhex("0000000000000102")
    assert encode_piece(258, b"ab") == bytes.fromhex("0000000000000102 00000002") + b"ab"
    assert encode_piece(7) == bytes.fromhex("0000000000000007 00000000")


pieces = st.lists(st.builds(Piece, st.integers(0, 1 << 62), st.binary(max_size=40)), max_size=5)


@given(pieces, st.integers(1, 30))
def test_pieces_are_found_whatever_the_cut(sent: list[Piece], step: int) -> None:
    data = b"".join(encode_piece(*one) for one in sent)
    decoder = PieceDecoder()
    got = [
        piece for at in range(0, len(data), step) for piece in decoder.feed(data[at : at + step])
    ]
    assert got == sent


@given(st.lists(st.integers(0, 1 << 62), min_size=1, max_size=5), st.integers(1, 30))
def test_the_last_report_counts_whatever_the_cut(sent: list[int], step: int) -> None:
    data = b"".join(map(encode_report, sent))
    decoder = ReportDecoder()
    got = [decoder.feed(data[at : at + step]) for at in range(0, len(data), step)]
    assert [one for one in got if one is not None][-1] == sent[-1]


def test_several_reports_at_once_give_the_newest() -> None:
    assert ReportDecoder().feed(encode_report(1) + encode_report(2) + b"\0") == 2


@pytest.mark.parametrize("size", [-1, PIECE_SIZE_MAX + 1])
def test_a_size_that_no_master_sends_is_an_error_with_its_place(size: int) -> None:
    good = encode_piece(1, b"abc")
    bad = (9).to_bytes(8) + size.to_bytes(4, signed=True)
    with pytest.raises(FrameError, match="size") as raised:
        list(PieceDecoder().feed(good + bad))
    assert raised.value.offset == len(good) + 8
