"""A container engine for tests: the one that answers here, or Podman for as long as they run.

Run a command beside it and an image of a release that is made here, `localhost/rocketmq:5.3.3`:

    python -m tests.interop.container_engine 5.3.3 COMMAND ...
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from embedded_broker.kit.backend import BackendError
from embedded_broker.kit.real import wait_until
from tests.interop import own_image

REPOSITORY = "localhost/rocketmq"
VERSION = "5.3.3"
NEEDED = ("podman", "runc", *own_image.NEEDED)
START_SECONDS = 60.0
ANSWER_SECONDS = 120
# Without this Podman raises limits for containers, which a machine inside another may not do.
CONTAINERS_CONF = """[containers]
default_ulimits = []
[engine]
runtime = "runc"
"""


class NoEngineError(Exception):
    """No container engine answers, none can be started, or it starts none; the text says why."""


@contextlib.contextmanager
def engine() -> Iterator[dict[str, str]]:
    """Yield the variables that lead to an engine: none when one answers here already."""
    if answers():
        yield {}
        return
    if missing := [tool for tool in NEEDED if shutil.which(tool) is None]:
        raise NoEngineError(f"no container engine answers, and {', '.join(missing)} not found")
    if os.geteuid() != 0:
        raise NoEngineError("no container engine answers, and starting Podman here needs root")
    with podman() as variables:
        yield variables


def answers() -> bool:
    """Whether something listens where `DOCKER_HOST` says, or at Docker's own address."""
    address = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    kind, _, place = address.partition("://")
    if kind != "unix":
        return True  # the user has said where
    with socket.socket(socket.AF_UNIX) as door:
        return door.connect_ex(place) == 0


@contextlib.contextmanager
def podman() -> Iterator[dict[str, str]]:
    """Podman's service with a store of its own; everything in it is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="engine-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        (home / "containers.conf").write_text(CONTAINERS_CONF, encoding="utf-8")
        # A user's PATH may lack the folders where Podman finds iptables.
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
        env = {**os.environ, "PATH": path, "CONTAINERS_CONF": str(home / "containers.conf")}
        command = ["podman", "--root", str(home / "root"), "--runroot", str(home / "run")]
        door = home / "engine.sock"
        with (home / "log").open("w", encoding="utf-8") as log:
            service = subprocess.Popen(
                [*command, "system", "service", "--time=0", f"unix://{door}"],
                env=env,
                stdout=log,
                stderr=log,
            )
        try:
            try:
                wait_until(door.exists, "podman answers", timeout=START_SECONDS)
            except BackendError as error:
                raise NoEngineError(f"{error}\n{(home / 'log').read_text()}") from error
            yield {
                "DOCKER_HOST": f"unix://{door}",
                "TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1",
                "TESTCONTAINERS_CONNECTION_MODE": "docker_host",
                "TESTCONTAINERS_RYUK_DISABLED": "true",
            }
        finally:
            service.terminate()
            service.wait(30)
            for words in (["rm", "--all", "--force"], ["rmi", "--all", "--force"]):
                subprocess.run([*command, *words], env=env, capture_output=True, timeout=60)


def load(version: str) -> str:
    """Give the engine an image of a release that is made here, unless it has it; its name."""
    import docker

    name = f"{REPOSITORY}:{version}"
    with contextlib.closing(docker.from_env(timeout=ANSWER_SECONDS)) as client:
        try:
            client.images.get(name)
        except docker.errors.ImageNotFound:
            answer = client.api.import_image_from_file(
                str(own_image.root_file_system(version)),
                repository=REPOSITORY,
                tag=version,
                changes=own_image.changes(version),
            )
            last = json.loads(answer.splitlines()[-1])
            # Docker has given it the tag by now, Podman has not.
            client.images.get(last.get("id") or last["status"]).tag(REPOSITORY, version)
        try:
            client.containers.run(name, ["sh", "-c", "true"], remove=True)
        except docker.errors.DockerException as error:
            raise NoEngineError(f"the engine starts no container: {error}") from error
    return name


def main(version: str, *command: str) -> int:
    """Run the command beside an engine that has the image of the release."""
    with engine() as variables:
        os.environ.update(variables)
        print(f"the engine has {load(version)}", flush=True)
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
