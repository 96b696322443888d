"""Pages of the site that are made at build time: the API, and every option of every command."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer

from knowgate.offline_eval.cli import app

ROOT = Path(__file__).resolve().parents[2]
TOP = ("guard", "calibration", "adapters", "offline_eval")


def generated() -> dict[str, str]:
    """Return the text of each page by its path in the site."""
    return {
        "reference/api/index.md": _api_index(),
        **{_api_path(name): _api_page(name, names) for name, names in public_modules().items()},
        "reference/options.md": _options_page(),
    }


def navigation() -> list[Any]:
    """Return the entries of these pages in the navigation."""
    modules = [{name: _api_path(name)} for name in public_modules()]
    return [
        {"Options of all commands": "reference/options.md"},
        {"Python API": ["reference/api/index.md", *modules]},
    ]


# --- the API -----------------------------------------------------------------------------


@cache
def public_modules() -> dict[str, list[str]]:
    """Return the public names by module, each name once: where a subpackage exports it first."""
    found: dict[str, list[str]] = {}
    homes: set[tuple[str, str]] = set()
    for module in sorted(_files(), key=lambda name: (name.count(".") < 1, name)):
        by_home = {_home(module, name): name for name in _exported(module)}
        if names := [name for home, name in by_home.items() if home not in homes]:
            found[module] = names
        homes |= by_home.keys()
    # The package itself loads its names from where they are documented when they are asked for.
    elsewhere = {name for module, names in found.items() if module != "knowgate" for name in names}
    found["knowgate"] = [name for name in found["knowgate"] if name not in elsewhere]
    return found


@cache
def _files() -> dict[str, Path]:
    """Return the files of the public modules by dotted name."""
    found = {"knowgate": ROOT / "knowgate/__init__.py"}
    for path in sorted(path for top in TOP for path in (ROOT / top).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(part.startswith("_") for part in parts):
            found[".".join(("knowgate", *parts))] = path
    return found


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _exported(module: str) -> list[str]:
    """Return `__all__` as written in the source."""
    for node in _tree(_files()[module]).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return []


def _home(module: str, name: str) -> tuple[str, str]:
    """Return the module that defines a name, and its name there."""
    path = ROOT.joinpath(*module.split(".")[1:])
    if module == "knowgate":
        path = ROOT / "knowgate"
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    package = module.split(".") if path.is_dir() else module.split(".")[:-1]
    if name not in (imports := _imports(file)):
        return module, name
    level, origin = imports[name]
    return _home(".".join([*package[: len(package) - level + 1], origin]).rstrip("."), name)


@cache
def _imports(file: Path) -> dict[str, tuple[int, str]]:
    """Return what a module imports from others of the package: name → dots and module."""
    return {
        alias.name: (node.level, node.module or "")
        for node in _tree(file).body
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
    }


def _api_path(module: str) -> str:
    return f"reference/api/{module}.md"


def _summary(module: str) -> str:
    return (ast.get_docstring(_tree(_files()[module])) or "").partition("\n")[0]


def _api_index() -> str:
    lines = [
        "# Python API\n",
        "The public names of each package. What is not listed is private and may change.\n",
        "| module | holds |",
        "|---|---|",
        *(f"| [{name}]({name}.md) | {_summary(name)} |" for name in public_modules()),
    ]
    return "\n".join(lines) + "\n"


def _api_page(module: str, names: list[str]) -> str:
    """Return a page: the module's docstring, then each public name."""
    first, _, rest = (ast.get_docstring(_tree(_files()[module])) or "").partition("\n")
    # Docstrings of packages are laid out in columns.
    body = f"\n```text\n{rest.strip()}\n```\n" if re.search(r"\S {2,}\S", rest) else rest
    objects = "\n".join(f"::: {module}.{name}\n" for name in names)
    if module == "knowgate":
        taken = [name for name in _exported(module) if name not in names]
        body += "\n" + ", ".join(f"`{name}`" for name in taken) + " are imported from here.\n"
    return f"---\ntitle: {module}\n---\n# `{module}`\n\n{first}\n{body}\n{objects}"


# --- the commands ------------------------------------------------------------------------


def _commands(command: Any, context: typer.Context) -> Iterator[tuple[typer.Context, Any]]:
    """Yield every command with its context, groups opened."""
    if not hasattr(command, "commands"):
        yield context, command
        return
    for name in sorted(command.list_commands(context)):
        below = command.get_command(context, name)
        yield from _commands(below, typer.Context(below, parent=context, info_name=name))


def _options_page() -> str:
    """Return a page with the help of every command, from the commands themselves."""
    root = typer.main.get_command(app)
    parts = [
        "# Options of all commands\n",
        "What `knowgate COMMAND --help` prints. The [table of commands](commands.md) has each in "
        "one line, and the exit codes.\n",
    ]
    for context, command in _commands(root, typer.Context(root, info_name="knowgate")):
        parts.append(f"## {context.command_path}\n")
        parts.append(f"{inspect.cleandoc(command.help or '')}\n")
        rows = [_row(parameter, context) for parameter in command.params]
        if shown := [row for row in rows if row]:
            parts += ["| option | |", "|---|---|", *shown, ""]
    return "\n".join(parts)


def _row(parameter: Any, context: typer.Context) -> str:
    """Return the table row of an option or argument, empty for a hidden one."""
    record = parameter.get_help_record(context)
    if record is None:
        return ""
    names, text = (" ".join(part.split()).replace("|", "\\|") for part in record)
    return f"| `{names}` | {text.replace('<', '&lt;').replace('[', '&#91;')} |"
