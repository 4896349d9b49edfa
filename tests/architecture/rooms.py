"""The rooms of each package, from top to bottom: imports go down only.

A room is a folder or a module directly below the package. Each line of a package is a layer: rooms
of one line do not know each other, and a room may import from the lines below it. `__init__` stands
above all others, because it gives out their public names.
"""

from __future__ import annotations

from typing import Final

LAYERS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "compat": (("java", "ons", "v5"),),
    "embedded_broker": (
        ("containers", "pytest_plugin"),
        ("cli", "kit"),
        ("control",),
        ("api", "inspector"),
        ("lifecycle",),
        ("namesrv", "ha", "grpc"),
        ("remoting",),
        ("core",),
        ("timer",),
        ("tables",),
        ("clocks",),
        ("store",),
        ("settings",),
        ("door",),
        ("errors", "threads"),
    ),
    "rocketmq_py": (
        ("admin", "aio", "raw", "telemetry"),
        ("reply",),
        ("producer", "consumer", "administration"),
        ("trace",),
        ("client",),
        ("transport",),
        ("message", "config"),
        ("send_result",),
        ("protocol", "threads"),
        ("clock",),
        ("errors", "logs", "lazy_names", "signals", "spelling", "_version"),
    ),
    "spark_connector": (
        ("__main__", "discovery"),
        ("source", "frames", "bundle"),
        ("reading", "writing"),
        ("decoding", "planning"),
        ("servers",),
        ("options",),
        ("errors",),
    ),
}
"""Package to its layers."""
