"""The kept figures are whole: what was run, every run of it, and what follows from the runs."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from tests.perf.measure import RESULTS, RUNS

# Trials are of another size and not kept: git ignores them.
FILES = sorted(one for one in RESULTS.glob("*.json") if not one.stem.endswith("_trial"))
SPARK = ("spark_read", "spark_write", "spark_memory")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_kept_figure_has_its_command_and_all_its_runs(path: Path) -> None:
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert kept["command"] == f"python -m tests.perf {path.stem}"
    assert kept["figures"]
    for figure in kept["figures"]:
        runs = figure["runs"]
        # One run where it is a whole programme of its own.
        assert len(runs) == RUNS or (len(runs) == 1 and path.stem in SPARK), figure["name"]
        assert figure["median"] == statistics.median(runs)
        assert figure["spread"] == [min(runs), max(runs)]


@pytest.mark.case("SP72")
@pytest.mark.parametrize("bench", SPARK)
def test_the_figures_of_the_spark_connector_are_kept(bench: str) -> None:
    kept = json.loads((RESULTS / f"{bench}.json").read_text(encoding="utf-8"))
    assert {figure["bar"] for figure in kept["figures"]} - {"reported"}
