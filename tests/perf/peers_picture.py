"""Draw what the bench ``peers`` has kept: ``python -m tests.perf.peers_picture``."""

from __future__ import annotations

import json

from tests.perf.measure import RESULTS, ROOT
from tests.perf.peers import PEERS

PICTURE = ROOT / "examples" / "images" / "peers.png"
PANELS = {
    "blocking": "blocking sends of one thread, messages/s",
    "window": "up to 1,000 sends under way, messages/s",
    "batch": "batches of 32, messages/s",
    "consume": "received by an empty listener, messages/s",
    "latency": "from send to listener, median µs (less is better)",
    "memory": "an idle producer and consumer, MB (less is better)",
}
COLOURS = ("#1f77b4", "#aec7e8")
HEIGHT = 0.38


def main() -> None:
    """Write the picture in the place of the old one."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    kept = json.loads((RESULTS / "peers.json").read_text(encoding="utf-8"))["figures"]
    medians = {one["name"]: one["median"] for one in kept}
    servers = list(dict.fromkeys(name.partition(", ")[0] for name in medians))
    figure = Figure(figsize=(10, 6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (part, title) in zip(figure.subplots(3, 2).flat, PANELS.items(), strict=True):
        for place, server in enumerate(servers):
            values = [medians.get(f"{server}, {peer.name}: {part}", 0.0) for peer in PEERS]
            rows = [number + (place - 0.5) * HEIGHT for number in range(len(PEERS))]
            bars = axes.barh(rows, values, HEIGHT, color=COLOURS[place], label=server)
            texts = [f"{value:,.0f}" if value else "has none" for value in values]
            axes.bar_label(bars, texts, padding=3, fontsize=7)
        axes.set_yticks(range(len(PEERS)), [peer.name for peer in PEERS], fontsize=8)
        axes.invert_yaxis()
        axes.set_title(title, loc="left", fontsize=9)
        axes.margins(x=0.18)
        axes.tick_params(axis="x", labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False
    )
    figure.savefig(PICTURE, format="png", pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main()
