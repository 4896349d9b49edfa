"""The kept figures are whole: what was run, every run of it, and what follows from the runs.

And nobody takes others in their place by mistake.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from tests.perf.__main__ import BENCHES, chosen
from tests.perf.measure import RESULTS, RUNS

# Trials are of another size and not kept: git ignores them.
FILES = sorted(one for one in RESULTS.glob("*.json") if not one.stem.endswith("_trial"))
SPARK = ("spark_read", "spark_write", "spark_memory")
ONCE = (*SPARK, "spark_queues", "spark_timers")
WANTED = {
    "spark_read": {
        "default columns / Kafka": "at least 1 x",
        "with properties / Kafka": "at least 0.7 x",
        "with properties / Kafka seen by a Python worker": "at least 1.2 x",
        "offset and body / Kafka": "at least 1.4 x",
        "Arrow / tuples": "at least 3 x",
        "default columns, default cap of 32 / Kafka": "at least 0.9 x",
    },
    "spark_write": {
        "ours / Kafka sink": "at least 1.1 x",
        "delayed": "at least 60000 rows/s",
    },
    "spark_memory": {
        "growth of the planner": "at most 8 MiB",
        "growth of the JVM's heap": "at most 24 MiB",
    },
    "spark_queues": {"1,600 queues / one queue": "at most 3 x"},
    "spark_eight_queues": {"8 queues of 125,000 rows, now / before": "at least 1 x"},
    "spark_offsets": {
        "10,000 queues: slowest idle latestOffset": "at most 50 ms",
        "10,000 queues: text of an offset": "at most 100 kB",
        "10,000 queues: memory of the planner": "at most 150 MiB",
    },
    "spark_planning": {
        "800 queues by time": "at most 0.81 s",
        "800 queues by group": "at most 0.81 s",
        "800 commits": "at most 0.81 s",
    },
}
"""What the Spark connector has promised, and how much, by the bench that takes it."""
OLD_AND_NEW = (
    "spark_queues",
    "spark_eight_queues",
    "spark_offsets",
    "spark_planning",
    "spark_single_rows",
)
"""Benches that take an older tree's figures in the same run."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_kept_figure_has_its_command_and_all_its_runs(path: Path) -> None:
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert kept["command"] == f"python -m tests.perf {path.stem}"
    assert kept["figures"]
    for figure in kept["figures"]:
        runs = figure["runs"]
        # One run where it is a whole programme of its own.
        assert len(runs) == RUNS or (len(runs) == 1 and path.stem in ONCE), figure["name"]
        assert figure["median"] == statistics.median(runs)
        assert figure["spread"] == [min(runs), max(runs)]


@pytest.mark.case("SP72")
@pytest.mark.parametrize("bench", WANTED)
def test_the_figures_of_the_spark_connector_are_kept_with_bars_that_they_reach(bench: str) -> None:
    kept = json.loads((RESULTS / f"{bench}.json").read_text(encoding="utf-8"))
    bars = {figure["name"]: figure for figure in kept["figures"] if figure["bar"] != "reported"}
    assert {name: bars[name]["bar"] for name in WANTED[bench]} == WANTED[bench]
    for name, figure in bars.items():
        kind, bar, *_unit = figure["bar"].removeprefix("at ").split()
        median = figure["median"]
        assert median >= float(bar) if kind == "least" else median <= float(bar), name
        assert figure["reached"] is True


@pytest.mark.case("SP72")
@pytest.mark.parametrize("bench", OLD_AND_NEW)
def test_what_is_compared_with_an_older_tree_is_kept_with_its_figures(bench: str) -> None:
    kept = json.loads((RESULTS / f"{bench}.json").read_text(encoding="utf-8"))
    names = {figure["name"] for figure in kept["figures"]}
    now = {name for name in names if not name.endswith("before")}
    assert now
    assert {f"{name}, before" for name in now} <= names


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ("", "arguments are required: NAME"),
        ("imports nothing", "invalid choice: 'nothing'"),
        ("spark_read --cores 2", "unrecognized arguments: --cores"),
        ("spark_read --row 5", "unrecognized arguments: --row"),
        ("spark_read --rows 0", "sizes must be 1 or more"),
        ("spark_read imports --rows 5", "only the Spark benches have options: imports take"),
        ("all --rows 5", "only the Spark benches have options"),
    ],
)
def test_no_figure_is_taken_by_a_line_that_says_something_else(
    arguments: str, refusal: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        chosen(arguments.split())
    assert refusal in capsys.readouterr().err


def test_asking_for_help_takes_no_figures(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        chosen(["--help"])
    assert "the figures are a trial and kept apart" in " ".join(capsys.readouterr().out.split())


def test_named_benches_are_taken_and_all_of_them_only_when_asked_for() -> None:
    assert chosen(["imports", "sliced"]) == ["imports", "sliced"]
    assert chosen(["spark_read", "--rows", "5", "--runs", "1"]) == ["spark_read"]
    assert chosen(["all"]) == list(BENCHES)
