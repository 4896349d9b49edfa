"""RocketMQ's proxy, before a real broker, answers wrong calls as our table says that it does."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest

from embedded_broker.kit.process import servers
from tests.interop.java_tools import CACHE
from tests.interop.real_proxy import real_proxy
from tests.unit.embedded_broker.grpc.wrong_calls import CALLS, SETTINGS, Stage

VERSION = "5.3.3"


@pytest.mark.case("G11", "G25", "G29", "G34", "G35", "G55")
@pytest.mark.timeout(300)
def test_a_real_proxy_answers_wrong_calls_as_the_strict_endpoint_does(tmp_path: Path) -> None:
    with contextlib.ExitStack() as life:
        pair = servers(tmp_path / "real", VERSION, settings=SETTINGS, cache=CACHE, politely=False)
        real = life.enter_context(pair)
        proxy = real_proxy(tmp_path / "proxy", real.namesrv_addr, VERSION)
        stage = Stage(
            endpoints=life.enter_context(proxy),
            broker=real.broker_addr,
            wait=time.sleep,
            now_ms=lambda: int(time.time() * 1000),
        )
        life.enter_context(stage)
        told = {name: wrong.act(stage) for name, wrong in CALLS.items()}
    assert told == {name: wrong.theirs for name, wrong in CALLS.items()}
