"""Public names of a package that are imported from their modules when they are first used."""

TYPE_CHECKING = False  # type checkers know the name; typing itself takes 8 ms to import

if TYPE_CHECKING:
    from collections.abc import Callable


def on_first_use(
    package: "dict[str, object]", module_of: "dict[str, str]"
) -> "Callable[[str], object]":
    """Give the ``__getattr__`` (PEP 562) of a package.

    ``package`` is its ``globals()``, ``module_of`` the module of each name, by its full name. A
    package gives it to the interpreter only: a checker that saw it would accept every name.
    """

    def imported(name: str) -> object:
        from importlib import import_module

        module = module_of.get(name)
        if module is None:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        thing: object = getattr(import_module(module), name)
        package[name] = thing  # it is asked for once
        return thing

    return imported
