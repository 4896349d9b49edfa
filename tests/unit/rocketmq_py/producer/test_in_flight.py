"""The book of unfinished sends."""

from __future__ import annotations

import threading

from rocketmq_py.producer.in_flight import InFlight


def test_a_send_leaves_exactly_once() -> None:
    book: InFlight[object] = InFlight()
    send = object()
    book.enter(send)
    assert (len(book), book.leave(send), book.leave(send), len(book)) == (1, True, False, 0)


def test_draining_ends_when_the_last_send_leaves() -> None:
    book: InFlight[object] = InFlight()
    sends = [object(), object()]
    for send in sends:
        book.enter(send)
    thread = threading.Thread(target=lambda: [book.leave(send) for send in sends])
    thread.start()
    assert book.drain(10) == []
    thread.join()


def test_draining_returns_what_is_left_after_the_time() -> None:
    book: InFlight[object] = InFlight()
    assert book.drain(0.01) == []
    send = object()
    book.enter(send)
    assert book.drain(0.01) == [send]
