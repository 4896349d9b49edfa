"""Every answer of a put has one meaning."""

from __future__ import annotations

from embedded_broker.store.inner import PutStatus
from embedded_broker.timer.wheel.put_verdict import DONE, HOPELESS, SOON_BETTER


def test_no_answer_means_two_things_and_a_flush_that_timed_out_means_stored() -> None:
    assert not DONE & HOPELESS
    assert not DONE & SOON_BETTER
    assert not HOPELESS & SOON_BETTER
    assert {PutStatus.PUT_OK, PutStatus.FLUSH_DISK_TIMEOUT} <= DONE
    assert PutStatus.UNKNOWN_ERROR not in DONE | HOPELESS | SOON_BETTER
