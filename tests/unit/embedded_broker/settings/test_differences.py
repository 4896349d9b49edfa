"""Which generation a profile belongs to."""

from __future__ import annotations

from embedded_broker.settings.differences import differences
from embedded_broker.settings.profiles import PROFILES, find_profile


def test_the_generations_differ_in_every_habit() -> None:
    old, new = (differences(find_profile(name)) for name in ("rocketmq-4.9", "rocketmq-5.x"))
    assert old.marks_stored_messages is False
    assert new.marks_stored_messages is True
    names = [name for name in dir(old) if not name.startswith("_")]
    assert [name for name in names if getattr(old, name) == getattr(new, name)] == []


def test_every_profile_has_habits() -> None:
    for profile in PROFILES.values():
        assert differences(profile) in {
            differences(find_profile("rocketmq-4.9")),
            differences(find_profile("rocketmq-5.x")),
        }
