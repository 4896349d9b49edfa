"""`rocketmq-py options` tells every row of the table of options."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner, Result

from embedded_broker.cli.options import OF_THE_COMMAND, options, told
from embedded_broker.settings.options import ARGUMENT_NAMES, OPTIONS, Option

UPSTREAM = "RocketMQ's default is"
FIXED = "fixed while the broker runs"
ONLY = "the embedded broker has no other behaviour"


def run(*words: str) -> Result:
    app = typer.Typer()
    app.command()(options)
    return CliRunner().invoke(app, list(words))


def test_every_option_is_told_with_default_limit_and_meaning() -> None:
    done = run()
    assert done.exit_code == 0
    blocks = done.stdout.split("\n\n")[0].splitlines()
    assert [line.split(" =")[0] for line in blocks if line[0] not in " I"] == list(OPTIONS)
    joined = " ".join(done.stdout.split())
    for one in OPTIONS.values():
        assert " ".join(one.meaning.split()) in joined, one.name
        assert " ".join(one.limit.split()) in joined, one.name
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 100
    assert "storePathRootDir (as --store)" in done.stdout


def test_words_choose_options_by_name_or_meaning() -> None:
    done = run("longest", "DELAY", "accepted")
    assert done.stdout.splitlines() == [
        "timerMaxDelaySec = 259200",
        "    longest delay that is accepted, in seconds",
        "    an integer from 0 to 2147483647",
    ]
    done = run("nothing-like-it")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "no option fits nothing-like-it" in done.stderr


@pytest.mark.parametrize(
    ("option", "lines"),
    [
        (
            Option("a", 1, "a step", upstream=1000, low=1, high=1000, live=False),
            [
                "a = 1",
                "    a step",
                f"    an integer from 1 to 1000; {UPSTREAM} 1000; {FIXED}",
            ],
        ),
        (Option("b", "", "a key", secret=True), ["b =", "    a key", "    a text"]),
        (
            Option("c", True, "no effect", fixed=True, live=False),
            [
                "c = true",
                "    no effect",
                "    only true: the embedded broker has no other behaviour",
            ],
        ),
    ],
)
def test_what_is_said_of_one(option: Option, lines: list[str]) -> None:
    assert list(told(option)) == lines


def test_what_broker_conf_has_besides_is_an_option_of_serve_or_an_argument() -> None:
    assert set(OF_THE_COMMAND) <= set(ARGUMENT_NAMES)
