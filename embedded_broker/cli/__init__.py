"""The `rocketmq-py` command: which sub-commands exist.

Each sub-command lives in a module of its own. The command line itself is typer's, tables and
colours are rich's; both come with the `cli` extra and are imported only here.
"""

import sys


def main() -> None:
    """Entry point of the `rocketmq-py` program."""
    try:
        import typer
    except ModuleNotFoundError:
        from rocketmq_py.errors import how_to_install

        sys.exit(f"rocketmq-py needs typer: {how_to_install('cli')}")
    from embedded_broker.cli.options import options
    from embedded_broker.cli.serve import serve, tell_version, version
    from embedded_broker.cli.store import repair
    from embedded_broker.cli.timers import timers

    app = typer.Typer(
        name="rocketmq-py",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,  # whose tables cut names in a terminal of 80 columns
        pretty_exceptions_show_locals=False,
    )

    @app.callback()
    def begin(
        _version: bool = typer.Option(
            False, "--version", is_eager=True, callback=tell_version, help="Print the version."
        ),
    ) -> None:
        """RocketMQ for tests: run a broker as a program, look into stores and mend them."""

    app.command()(serve)
    app.command()(timers)
    app.command()(options)
    app.command()(version)
    store = typer.Typer(no_args_is_help=True, help="Look after a store directory.")
    store.callback()(lambda: None)
    store.command()(repair)
    app.add_typer(store, name="store")
    app()
