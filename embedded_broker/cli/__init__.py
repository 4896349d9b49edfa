"""The `rocketmq-py` command: its entry point.

Each sub-command lives in a module of its own. The command line itself is typer's, tables and
colours are rich's; both come with the `cli` extra and are imported only here.
"""

import sys


def main() -> None:
    """Entry point of the `rocketmq-py` program."""
    try:
        import typer  # noqa: F401 - without it `commands` cannot be imported
    except ModuleNotFoundError:
        from rocketmq_py.errors import how_to_install

        sys.exit(f"rocketmq-py needs typer: {how_to_install('cli')}")
    from embedded_broker.cli.commands import app

    app()
