"""What access control takes off the rate of sends: Java's own client, which signs in every run.

Eight threads send synchronously, as in `java_load.py`. The broker has no accounts, plain accounts
(ACL 1), or users and policies (ACL 2), in turn; the ratios are taken run by run. The client signs
in all of them, so a ratio is what the broker's own work takes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from rocketmq_py.protocol.json_text import dumps
from tests.perf.java_load import LOADS, Load, load
from tests.perf.measure import RUNS, Figure, figure, keep
from tests.perf.server_process import served

BAR = 0.85
KEYS = ("performance", "12345678")
FILE = """\
accounts:
  - accessKey: performance
    secretKey: 12345678
    defaultTopicPerm: DENY
    topicPerms:
      - Load_sync=PUB
"""
USER = dumps({"username": KEYS[0], "password": KEYS[1]}).decode()


def main() -> None:
    messages = LOADS["sync"][0]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plain_acl.yml"
        file.write_text(FILE, encoding="utf-8")
        kinds: dict[str, tuple[str, ...]] = {
            "off": (),
            "ACL 1": ("--set", "aclEnable=true", "--set", f"plainAclFile={file}"),
            "ACL 2": (
                *("--set", "authenticationEnabled=true", "--set", "authorizationEnabled=true"),
                *("--set", f"initAuthenticationUser={USER}"),
            ),
        }
        runs: dict[str, list[Load]] = {kind: [] for kind in kinds}
        for _ in range(RUNS):
            for kind, options in kinds.items():
                with served("--topic", "Load_sync", *options) as server:
                    runs[kind].append(load(server.namesrv, server.pid, "sync", messages, *KEYS))
    keep("acl", figures_of(runs), messages=messages)


def figures_of(runs: dict[str, list[Load]]) -> list[Figure]:
    """Rates and CPU of each kind, and what is left of the rate."""
    found = []
    for kind, loads in runs.items():
        rates = [one.rate for one in loads]
        found.append(figure(f"sync, {kind}", "messages/s", rates))
        cpu = [one.broker_us for one in loads]
        found.append(figure(f"CPU of the broker, {kind}", "us/message", cpu))
        if kind != "off":
            left = [on / off.rate for on, off in zip(rates, runs["off"], strict=True)]
            found.append(figure(f"sync, {kind} / off", "x", left, at_least=BAR))
    return found
