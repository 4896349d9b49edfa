"""A broker lives for 24 days: the short form of `python -m tests.sim.long_life`."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from tests.sim.long_life import LIMITS, Account, Plan, Sample, live, verdict

SHORT = Plan(scale=80_000, step_s=4 * 3600)
"""So few messages touch the pages of the wheel for years: blocks and objects stand for memory."""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_memory_disk_and_tables_stay_flat_for_twenty_four_days(tmp_path: Path) -> None:
    account = live(SHORT, tmp_path / "store")
    assert len(account.samples) == SHORT.days
    assert account.accepted == pytest.approx(SHORT.days * 86_400 * 200 / SHORT.scale, abs=1)
    assert verdict(account, {one: LIMITS[one] for one in LIMITS if one != "memory"}) == []


def test_what_grows_is_named() -> None:
    one = Sample(
        day=1, blocks=1000, objects=1000, memory=1000, disk=1000, files=10, descriptors=9, waiting=0
    )
    samples = [evolve(one, day=day, disk=1000 + 50 * day) for day in range(1, 25)]
    (told,) = verdict(Account(accepted=2, recalled=1, consumed=1, samples=samples))
    assert told.startswith("disk grew by ")
    (lost,) = verdict(Account(accepted=2, consumed=1, samples=[evolve(one, day=20)]))
    assert lost == "1 messages were consumed, 2 should have been"
