"""Tests of the SDK on real brokers, by the option of the kit: what these cannot do is skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.java_tools import CACHE
from tests.interop.sdk_runs import DELAYS, EMBEDDED, LONG_SECONDS, TESTS, counts, outcomes
from tests.pages import commands_of, files_of, is_as_shown, printed

PAGE = "TUTORIAL.md"
COMMANDS = commands_of(PAGE)


def test_embedded() -> None:
    found, _ = outcomes("embedded")
    assert found == counts(TESTS, 0)


@pytest.mark.smoke
def test_delays_on_a_process_of_5x() -> None:
    found, said = outcomes("process:5.3.3", DELAYS)
    assert found == counts(5, 1)
    assert "rocketmq_clock: process:5.3.3 does not offer a clock that the test moves" in said


@pytest.mark.case("W110")
@pytest.mark.timeout(LONG_SECONDS + 100)
def test_a_process_of_5x() -> None:
    found, _ = outcomes("process:5.3.3")
    assert found == counts(TESTS - EMBEDDED, EMBEDDED)


def test_a_container(engine_image: str) -> None:
    found, said = outcomes(f"container:{engine_image}", DELAYS)
    assert found == counts(4, 2)
    assert "does not offer a store that is opened again" in said


@pytest.mark.parametrize("command", [one for one in COMMANDS if "--rocketmq=process" in one])
def test_the_tutorial_shows_what_real_brokers_do(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETMQ_PY_CACHE", str(CACHE))
    told = printed(command, files_of(PAGE), tmp_path)
    assert is_as_shown(COMMANDS[command], told), told
