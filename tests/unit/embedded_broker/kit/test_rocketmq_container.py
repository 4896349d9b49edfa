"""The container's command, files and ports; the engine is a fake that remembers what was asked."""

from __future__ import annotations

import io
import socket
import tarfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attrs import define, field
from docker.errors import APIError
from testcontainers.core import container as core
from testcontainers.core.config import ConnectionMode, testcontainers_config

from embedded_broker import EmbeddedBroker
from embedded_broker.containers import BrokerRegistered, RocketMQContainer
from embedded_broker.kit.backend import Ability, BackendError
from embedded_broker.kit.container import ContainerBackend
from embedded_broker.kit.pytest_run import PytestRun, run_options
from embedded_broker.kit.rocketmq_container import BROKER_CONF, GO


@define
class FakeContainer:
    """What docker gives for a container."""

    engine: FakeEngine
    status: str = "running"
    id: str = "abc"
    short_id: str = "abc"
    attrs: dict[str, Any] = field(factory=lambda: {"State": {"Status": "running"}})
    files: dict[str, str] = field(factory=dict)
    removed: int = 0

    def put_archive(self, path: str, data: bytes) -> bool:
        assert path == "/"
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            for entry in tar:
                content = tar.extractfile(entry)
                assert content is not None
                self.files[f"/{entry.name}"] = content.read().decode()
        return True

    def logs(self, **_streams: bool) -> bytes:
        return b"|-INFO in setup\nboot success\n"

    def reload(self) -> None:
        self.status = self.engine.status

    def remove(self, **_how: bool) -> None:
        self.removed += 1

    def start(self) -> None:
        pass


@define
class FakeEngine:
    """Testcontainers' client: how containers are made, and where they are reached."""

    namesrv_port: int = 9876
    status: str = "running"
    refuses: list[str] = field(factory=list)
    made: list[dict[str, Any]] = field(factory=list)
    containers: list[FakeContainer] = field(factory=list)

    @property
    def client(self) -> FakeEngine:
        return self

    def close(self) -> None:
        pass

    def create(self, image: str, **how: Any) -> FakeContainer:
        self.made.append({"image": image, **how})
        self.containers.append(FakeContainer(self))
        return self.containers[-1]

    def start(self, _container: FakeContainer) -> None:
        if self.refuses:
            raise APIError(self.refuses.pop(0))

    def host(self) -> str:
        return "localhost"

    def get_connection_mode(self) -> ConnectionMode:
        return ConnectionMode.docker_host

    def port(self, _container: str, port: int) -> str:
        assert port == 9876
        return str(self.namesrv_port)


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """What the container would run."""
    with EmbeddedBroker() as started:
        yield started


@pytest.fixture
def engine(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    fake = FakeEngine(int(broker.namesrv_addr.rpartition(":")[2]))
    monkeypatch.setattr(core, "DockerClient", lambda **_kw: fake)
    monkeypatch.setattr(testcontainers_config, "ryuk_disabled", True)
    return fake


def settings_given(engine: FakeEngine) -> dict[str, str]:
    text = engine.containers[-1].files[BROKER_CONF]
    return dict(line.split("=", 1) for line in text.splitlines())


def test_the_broker_has_one_port_inside_and_outside_and_names_it(engine: FakeEngine) -> None:
    with RocketMQContainer() as rocketmq:
        (made,) = engine.made
        conf = settings_given(engine)
        port = int(conf["listenPort"])
        assert made["image"] == "apache/rocketmq:5.3.3"
        assert {str(key): host for key, host in made["ports"].items()} == {
            "9876": None,
            str(port): port,
        }
        assert rocketmq.get_namesrv_addr() == f"localhost:{engine.namesrv_port}"
        assert rocketmq.get_broker_addr() == f"localhost:{port}"
    assert conf["brokerIP1"] == "127.0.0.1"
    assert conf["namesrvAddr"] == "127.0.0.1:9876"
    assert conf["timerWheelEnable"] == conf["recallMessageEnable"] == "true"
    assert engine.containers[0].removed == 1


def test_the_broker_waits_for_its_file_and_the_signal_comes_after_it(engine: FakeEngine) -> None:
    with RocketMQContainer():
        assert list(engine.containers[0].files) == [BROKER_CONF, GO]
        shell, option, command = engine.made[0]["command"]
    assert (shell, option) == ("sh", "-c")
    first, wait, last = command.strip().splitlines()
    assert first.endswith("sh mqnamesrv &")
    assert f"[ ! -f {GO} ]" in wait
    assert last == f"exec sh mqbroker -c {BROKER_CONF}"


def test_what_the_user_sets_is_used(engine: FakeEngine) -> None:
    wanted = {"timerPrecisionMs": "100"}
    made = RocketMQContainer(
        "own/mq:1", broker_port=20911, settings=wanted, heap_megabytes=256
    ).with_broker_setting("deleteWhen", "04")
    with made:
        conf = settings_given(engine)
        assert engine.made[0]["environment"]["JAVA_OPT_EXT"].startswith(
            "-Xms256m -Xmx256m -Xmn128m"
        )
    assert conf["listenPort"] == "20911"
    assert conf["timerPrecisionMs"] == "100"
    assert conf["deleteWhen"] == "04"


def test_a_heap_too_small_for_a_broker_is_refused_before_anything_starts() -> None:
    with pytest.raises(BackendError, match="heap_megabytes is 64: a broker needs 128 or more"):
        RocketMQContainer(heap_megabytes=64)


def test_a_port_that_somebody_took_meanwhile_is_replaced(engine: FakeEngine) -> None:
    engine.refuses = ["bind: address already in use", "port is already allocated"]
    with RocketMQContainer():
        ports = [set(map(str, made["ports"])) - {"9876"} for made in engine.made]
        assert settings_given(engine)["listenPort"] in ports[2]
    assert list(map(len, ports)) == [1, 1, 1]
    assert [one.removed for one in engine.containers] == [1, 1, 1]


def test_a_port_that_the_user_chose_is_not_replaced(engine: FakeEngine) -> None:
    engine.refuses = ["address already in use"]
    with pytest.raises(APIError), RocketMQContainer(broker_port=20911):
        pass
    assert [one.removed for one in engine.containers] == [1]


def test_a_container_that_ends_fails_the_start_with_its_words_and_is_removed(
    engine: FakeEngine,
) -> None:
    engine.status = "exited"
    engine.namesrv_port = 1
    with pytest.raises(BackendError, match=r"(?s)rocketmq:5\.3\.3 ended; it said:.*boot success"):
        RocketMQContainer().start()
    assert [one.removed for one in engine.containers] == [1]


def test_a_broker_that_never_registers_fails_the_start_in_time(engine: FakeEngine) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        engine.namesrv_port = silent.getsockname()[1]
        made = RocketMQContainer().waiting_for(BrokerRegistered().with_startup_timeout(1))
        with pytest.raises(BackendError, match=r"a broker registers at localhost:\d+: not in 1 s"):
            made.start()
    assert [one.removed for one in engine.containers] == [1]


def test_the_backend_knows_its_release_from_the_tag_and_keeps_the_last_words(
    engine: FakeEngine,
) -> None:
    backend = ContainerBackend("registry.example.org:5000/mq:4.9.7")
    assert backend.name == "container:registry.example.org:5000/mq:4.9.7"
    assert backend.version == (4, 9, 7)
    with backend:
        assert backend.start() is backend
        assert backend.namesrv_addr == f"localhost:{engine.namesrv_port}"
    backend.stop()
    assert engine.containers[0].removed == 1
    assert backend.log_tail() == ["boot success", "boot success"]
    with pytest.raises(BackendError, match="is not started"):
        _ = backend.namesrv_addr


def test_a_tag_without_a_release_is_asked_of_the_broker(engine: FakeEngine) -> None:
    unknown = ContainerBackend("own/mq:latest")
    assert unknown.version is None
    with ContainerBackend("own/mq:latest") as backend:
        assert backend.version is not None
        assert backend.abilities > unknown.abilities


def test_a_release_that_no_tag_tells_decides_before_the_first_test_is_skipped(
    engine: FakeEngine,
) -> None:
    run = PytestRun(run_options("container:own/mq:latest", "function", 0, "60", strict=False))
    assert run.lacks(Ability.FAULTS) is not None
    assert engine.made == []
    assert run.lacks(Ability.TIMERS) is None
    run.close()
    assert [one.removed for one in engine.containers] == [1]


def test_what_the_engine_refuses_is_told_and_not_tried_again(engine: FakeEngine) -> None:
    engine.refuses = ["no such image"]
    backend = ContainerBackend("own/mq:5.3.3")
    for _ in range(2):
        with pytest.raises(BackendError, match=r"own/mq:5\.3\.3: no such image"):
            backend.start()
    assert len(engine.made) == 1


@pytest.mark.parametrize(
    ("address", "shown"), [("unix:///nowhere.sock", "unix:///nowhere.sock"), (None, "default")]
)
def test_without_an_engine_the_error_says_where_it_was_looked_for(
    address: str | None, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from docker.errors import DockerException

    def refuses(**_kw: object) -> None:
        raise DockerException("no such file")

    monkeypatch.setattr(core, "DockerClient", refuses)
    if address is None:
        monkeypatch.delenv("DOCKER_HOST", raising=False)
    else:
        monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(BackendError, match=rf"no container engine answers at .*{shown}"):
        ContainerBackend().start()


def test_without_testcontainers_the_error_names_the_extra(hide: Callable[[str], None]) -> None:
    hide("docker.errors")
    with pytest.raises(BackendError, match=r"pip install \"DIR/TO/CLONE\[containers\]\""):
        ContainerBackend().start()


@pytest.fixture
def hide(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Make an import fail."""
    import sys

    return lambda name: monkeypatch.setitem(sys.modules, name, None)
