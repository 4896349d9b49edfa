"""What a client works on, and who waits for it."""

from __future__ import annotations

import threading

import pytest

from rocketmq_py.client.activity import Activity, Book

WAIT_S = 20.0


def test_work_counts_from_its_entry_until_it_leaves_once() -> None:
    book, first, second = Book("producer P", "sends in flight"), object(), object()
    assert book.told() is None
    book.enter(first)
    book.enter(second)
    assert book.told() == "producer P: 2 sends in flight"
    assert list(book) == [first, second]
    book.leave(first)
    book.leave(first)
    assert len(book) == 1


def test_a_block_counts_for_as_long_as_it_runs_also_when_it_fails() -> None:
    book = Book("producer P", "transactions undecided")
    seen = []

    def fail() -> None:
        with book.working(), book.working():
            seen.append(len(book))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [*seen, len(book)] == [2, 0]


def test_an_empty_book_is_not_waited_for_and_one_that_stays_full_no_longer_than_asked() -> None:
    book = Book("producer P", "sends in flight")
    book.wait_until_empty(WAIT_S)
    book.enter(book)
    book.wait_until_empty(0)
    assert (len(book), book.is_waited_for) == (1, False)


def test_all_who_wait_go_on_when_the_last_entry_leaves() -> None:
    book, works = Book("producer P", "sends in flight"), [object(), object()]
    for work in works:
        book.enter(work)
    left = []

    def wait() -> None:
        book.wait_until_empty(WAIT_S)
        left.append(len(book))

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    for work in works:
        book.leave(work)
    for thread in threads:
        thread.join(WAIT_S)
    assert left == [0, 0, 0]


def test_a_client_works_on_what_is_in_its_books_until_they_are_closed() -> None:
    activity = Activity()
    sends = activity.open("producer P", "sends in flight")
    halves = activity.open("producer P", "transactions undecided")
    assert activity.told() is None
    with halves.working():
        assert activity.told() == "producer P: 1 transactions undecided"
        with sends.working():
            assert activity.told() == "producer P: 1 sends in flight"
        activity.close(halves)
        activity.close(halves)
        assert activity.told() is None
