"""Plugin of pytest: options, marks, checks and a section in reports.

Answers: when a test is skipped for its broker, when it fails for what it left behind, and what the
report of a failed test says. Must not know: how a broker is started. Nothing but pytest is imported
before a test asks for a broker. Read on: ``embedded_broker/kit/pytest_run.py``, ``fixtures.py``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from os.path import relpath
from random import SystemRandom
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, Final

import pytest

from embedded_broker.kit.skipping import skip

if TYPE_CHECKING:
    from embedded_broker.kit.mark_options import MarkOptions
    from embedded_broker.kit.pytest_run import PytestRun, Trial

_RUN: Final = pytest.StashKey["PytestRun"]()
_SEED: Final = pytest.StashKey[int]()
_BEFORE: Final = pytest.StashKey[list[object]]()
"""The brokers and clients that ran before the body of the test, or are for several tests."""
_HAS_PASSED: Final = pytest.StashKey[bool]()

MARKS: Final = (
    (
        "rocketmq(topics=[...], config={...}, timers=True, virtual_clock=True, ...): what the "
        "broker of a test has, and what it must be able to do; skipped where it is not"
    ),
    (
        'rocketmq_crash(after="SEND_MESSAGE_V2", nth=2): the broker crashes after the nth such '
        "request and starts again"
    ),
)
OURS: Final = ("rocketmq_py", "embedded_broker")
"""Packages whose frames say nothing about what a test did."""
NEEDED_BY: Final = {
    "rocketmq_clock": "VIRTUAL_CLOCK",
    "rocketmq_faults": "FAULTS",
    "rocketmq_store": "REOPEN",
    "rocketmq_cluster": "CLUSTER",
    "rocketmq_topic": "CREATE_TOPICS",
}
"""Fixture to the ability that its broker must have."""

SHARING: Final = (
    "A broker is for one test unless you say otherwise. To let tests share one, say\n"
    "--rocketmq-scope=module (or session), or rocketmq_scope = module in the configuration of\n"
    "pytest. Then rocketmq_broker has that scope; it is emptied before each test. The other\n"
    "fixtures always are for one test: take a fixture of function scope for them."
)
"""What to do where a fixture of a wider scope wants one of ours."""

_SEED_OPTIONS: Final = ("rocketmq_seed", "randomly_seed")

OPTIONS: Final = (
    (
        "--rocketmq",
        "embedded",
        "BROKER",
        (
            "the broker of the tests: embedded (the default), process:VERSION (real jars, such as "
            "process:5.3.3), container[:IMAGE] (testcontainers), or HOST:PORT of a name server"
        ),
    ),
    (
        "--rocketmq-scope",
        "function",
        "SCOPE",
        "who shares an embedded broker: function (nobody, the default), module or session",
    ),
    (
        "--rocketmq-patience",
        "60",
        "SECONDS",
        "a test that would wait longer than this in real time is skipped (60)",
    ),
)
"""Option, default, and what the help says; each is an ini setting, too."""
SURELY_RIGHT: Final = {
    "rocketmq": ("embedded",),
    "rocketmq_scope": ("function", "module", "session"),
    "rocketmq_patience": ("60",),
}
"""Values that are not looked at before a test asks for a broker: to check one imports it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, each of which may also stand in the configuration file."""
    group = parser.getgroup("rocketmq", "RocketMQ brokers for tests")
    for name, default, metavar, told in OPTIONS:
        group.addoption(name, metavar=metavar, default=None, help=told)
        parser.addini(_ini(name), told, default=default)
    told = "unknown topics and contradicting subscriptions of a group fail a test"
    group.addoption("--rocketmq-strict", action="store_true", default=None, help=told)
    parser.addini("rocketmq_strict", told, type="bool", default=False)
    told = "repeat every random choice of the brokers; the report of a failed test tells it"
    group.addoption("--rocketmq-seed", type=int, metavar="SEED", default=None, help=told)


def _ini(name: str) -> str:
    return name.removeprefix("--").replace("-", "_")


def option(config: pytest.Config, name: str) -> Any:  # Any: str or bool, as declared above
    """Give an option of the command line, else the setting of the configuration file."""
    given = config.getoption(name, default=None)
    return config.getini(name) if given is None else given


@pytest.hookimpl(trylast=True)  # pytest-randomly has chosen its seed then
def pytest_configure(config: pytest.Config) -> None:
    """Say which marks there are."""
    for mark in MARKS:
        config.addinivalue_line("markers", mark)
    if any(option(config, name) not in values for name, values in SURELY_RIGHT.items()):
        run_of(config)  # a wrong value is said at once, and not by each test


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say which broker it is, where that was asked for."""
    if config.getoption("rocketmq", default=None) is None:
        return None
    return f"rocketmq: {run_of(config).options.backend}, --rocketmq-seed={_seed(config)}"


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the broker of the run."""
    run = config.stash.get(_RUN, None)
    if run is not None:
        run.close()


def run_of(config: pytest.Config) -> PytestRun:
    """Give the brokers of this run; here a broker is imported for the first time."""
    found = config.stash.get(_RUN, None)
    if found is not None:
        return found
    from embedded_broker.kit.pytest_run import PytestRun, run_options
    from rocketmq_py.errors import ConfigError

    try:
        options = run_options(
            option(config, "rocketmq"),
            option(config, "rocketmq_scope"),
            _seed(config),
            option(config, "rocketmq_patience"),
            strict=bool(option(config, "rocketmq_strict")),
        )
    except ConfigError as error:
        raise pytest.UsageError(str(error)) from error
    run = config.stash[_RUN] = PytestRun(options)
    return run


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # Any: a worker of pytest-xdist, if that is there
    """Give the seed of the run to a worker."""
    node.workerinput["rocketmq_seed"] = _seed(node.config)


def _seed(config: pytest.Config) -> int:
    """Give the seed of the run: as asked for, that of pytest-randomly, or a new one."""
    if _SEED not in config.stash:
        asked = [config.getoption(name, default=None) for name in _SEED_OPTIONS]
        asked.append(getattr(config, "workerinput", {}).get("rocketmq_seed"))
        given = next((one for one in asked if isinstance(one, int)), None)
        config.stash[_SEED] = SystemRandom().randrange(1 << 32) if given is None else given
    return config.stash[_SEED]


# -- one test -----------------------------------------------------------------------------------


def uses_kit(item: pytest.Item) -> bool:
    """Whether a test uses any fixture or mark of the kit."""
    names = getattr(item, "fixturenames", ())
    return "rocketmq_broker" in names or item.get_closest_marker("rocketmq") is not None


def has_passed(item: pytest.Item) -> bool:
    """Whether the body of a test ended well: one that did not is not blamed for what it left."""
    return item.stash.get(_HAS_PASSED, False)


@contextmanager
def without_traceback(config: pytest.Config) -> Iterator[None]:
    """Fail a test with the text of an error alone: its cause is an option or a mark."""
    from embedded_broker.kit.backend import BackendError
    from rocketmq_py.errors import ConfigError

    try:
        yield
    except BackendError as error:
        told = f"--rocketmq={option(config, 'rocketmq')}: {error}"
        raise pytest.fail.Exception(told, pytrace=False) from None
    except ConfigError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose broker cannot do what it needs; empty a broker that tests share."""
    run = item.config.stash.get(_RUN, None)
    if run is not None:
        run.renew_shared()
    if uses_kit(item):
        with without_traceback(item.config):
            _prepare(item)


def _prepare(item: pytest.Item) -> None:
    from embedded_broker.kit.backend import Ability
    from embedded_broker.kit.pytest_run import crashes_of, mark_options_of_node

    run, mark_options = run_of(item.config), mark_options_of_node(item)
    needs = {ability: f"mark {ability.name.lower()}" for ability in mark_options.needs}
    for name in getattr(item, "fixturenames", ()):
        if name in NEEDED_BY:
            needs[Ability[NEEDED_BY[name]]] = name
    if mark_options.settings_of_a_broker:
        needs[Ability.CONFIG] = f"mark {', '.join(mark_options.settings_of_a_broker)}"
    if crashes_of(item):
        needs[Ability.CRASH] = "mark rocketmq_crash"
    for ability, what in needs.items():
        reason = run.lacks(ability)
        if reason is not None:
            skip(f"{what}: {reason}")
    if run.is_embedded and run.options.scope != "function":
        _check_shared(item, run, mark_options)
    if "rocketmq_broker" in getattr(item, "fixturenames", ()):
        run.prepare(item)


def _check_shared(item: pytest.Item, run: PytestRun, mark_options: MarkOptions) -> None:
    """Fail a test that wants another broker than the one that it shares."""
    from embedded_broker.kit.pytest_run import mark_options_of_node

    scope = run.options.scope
    owner = item.getparent(pytest.Module) if scope == "module" else item.session
    given = {} if owner is None else mark_options_of_node(owner).settings
    if mark_options.settings != given:
        pytest.fail(
            f"mark {', '.join(mark_options.settings)}: these are settings of a broker of the "
            f"test's own, and --rocketmq-scope={scope} lets tests share one. Use function scope"
            + (", or mark the whole module" if scope == "module" else ""),
            pytrace=False,
        )


def require(request: pytest.FixtureRequest, ability: str, what: str) -> None:
    """Skip a test whose broker lacks an ability."""
    from embedded_broker.kit.backend import Ability

    reason = run_of(request.config).lacks(Ability[ability])
    if reason is not None:
        skip(f"{what}: {reason}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Note what runs before a test begins. A broker of a project's own making begins here."""
    item.config.stash[_BEFORE] = _running()
    broker = getattr(item, "funcargs", {}).get("rocketmq_broker")
    run = item.config.stash.get(_RUN, None)
    if run is not None and run.takes(broker):
        with without_traceback(item.config):
            run.trial_on(item, broker)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any],  # Any: a fixture gives what it likes
    request: pytest.FixtureRequest,
) -> Generator[None, object, object]:
    """Note what a fixture of several tests starts while one of them runs: it is not that test's."""
    __tracebackhide__ = True
    before = request.config.stash.get(_BEFORE, None)
    if before is None or fixturedef.scope == "function":
        return (yield)
    known = _running()
    result = yield
    before += [one for one in _running() if one not in known]
    return result


def _running() -> list[object]:
    from embedded_broker.kit.leftovers import running_brokers, running_clients

    return [*running_brokers(), *running_clients()]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test that passed, by name, for what it has left behind."""
    trial = _trial(item)
    told: list[str] = []
    try:
        if trial is not None:
            trial.end_plans()
            told += _said_by_strictness(item, trial)
        result = yield
        if trial is not None:
            told += trial.complaints()
        told += _never_planned(item, trial)
    finally:
        told += _left_open(item)
        if trial is not None:
            run_of(item.config).trials.pop(item.nodeid, None)
    if told and has_passed(item):
        pytest.fail("rocketmq: " + "\nrocketmq: ".join(dict.fromkeys(told)), pytrace=False)
    return result


def _trial(item: pytest.Item) -> Trial | None:
    run = item.config.stash.get(_RUN, None)
    return None if run is None else run.trials.get(item.nodeid)


def _said_by_strictness(item: pytest.Item, trial: Trial) -> list[str]:
    from embedded_broker.kit.fixture_broker import EmbeddedFixtureBroker

    fixture = trial.fixture
    if not (has_passed(item) and fixture.strict and isinstance(fixture, EmbeddedFixtureBroker)):
        return []
    return [f"strict mode: {note}" for note in fixture.disagreements()]


def _never_planned(item: pytest.Item, trial: Trial | None) -> list[str]:
    """Name a crash that was asked for where there is no broker to crash."""
    if trial is not None or all(one.name != "rocketmq_crash" for one in item.own_markers):
        return []
    return ["rocketmq_crash never happened, for the test has no broker: take rocketmq_broker"]


def _left_open(item: pytest.Item) -> list[str]:
    """Name what the body of a test has started and not ended.

    A test that has nothing of the kit is only warned: what it left may be meant for the next one.
    """
    from embedded_broker.kit.leftovers import brokers_left_open, clients_left_open, running_clients

    before = item.config.stash.get(_BEFORE, None)
    mark = item.get_closest_marker("rocketmq")
    if before is None or (mark is not None and mark.kwargs.get("leave_open")):
        return []
    del item.config.stash[_BEFORE]
    is_ours = uses_kit(item)
    told = list(brokers_left_open(before, close=is_ours))
    told += clients_left_open(one for one in running_clients() if one not in before)
    if is_ours:
        return told
    for one in told if has_passed(item) else ():
        item.warn(pytest.PytestWarning(f"rocketmq: {one}"))
    return []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the state of the broker to the report of a test that failed."""
    is_short = uses_kit(item) and item.config.get_verbosity() <= 0
    hide = is_short and not item.config.getoption("fulltrace")
    with _our_frames_hidden(call.excinfo) if hide and call.excinfo else nullcontext():
        report = yield
    if call.when != "teardown":
        item.stash[_HAS_PASSED] = call.when == "call" and report.passed
    if report.failed and call.when == "setup" and _is_too_wide(report.longreprtext):
        report.sections.append(("rocketmq", SHARING))
    if report.failed and call.when != "teardown":
        run = item.config.stash.get(_RUN, None)
        if run is not None:
            told = _state(item, run)
            if told is not None:
                report.sections.append(("rocketmq", told))
    if is_short:
        _shorten_logs(report)
    return report


def _is_too_wide(told: str) -> bool:
    """Whether a fixture of a module or of the session asked for one of ours."""
    return "ScopeMismatch" in told and "scoped fixture rocketmq_" in told


@contextmanager
def _our_frames_hidden(raised: pytest.ExceptionInfo[BaseException]) -> Iterator[None]:
    """End a traceback at the line of the test or its program; ``-v`` shows the rest."""
    modules = [frame.f_globals for frame, _ in walk_tb(raised.tb)]
    ours = [one for one in modules if one.get("__name__", "").partition(".")[0] in OURS]
    for one in ours:
        one["__tracebackhide__"] = True  # where pytest looks when a function has none
    try:
        yield
    finally:
        for one in ours:
            one.pop("__tracebackhide__", None)


def _state(item: pytest.Item, run: PytestRun) -> str | None:
    try:
        return run.report(item.nodeid, path=_path_from_here(item))
    except Exception as error:  # noqa: BLE001 - a broker in any state must not end the whole run
        return f"the state of the broker cannot be told: {error!r}"


def _path_from_here(item: pytest.Item) -> str:
    """Give the name by which pytest finds a test from where this run was started."""
    file, colons, name = item.nodeid.partition("::")
    if colons:
        file = relpath(item.path, item.config.invocation_params.dir)
    return f"{file}{colons}{name}"


def _shorten_logs(report: pytest.TestReport) -> None:
    from embedded_broker.kit.report import short_log

    report.sections = [
        (title, short_log(text) if title.startswith("Captured log") else text)
        for title, text in report.sections
    ]
