"""Count what a reader has to hold in the head, and hold it below limits that only fall.

`python -m tools.count_code` prints the table; `--check` exits with 1 where a count is above its
limit in `tools/size_limits.json` (`make lint` runs that); `--lower` writes today's counts as the
new limits where they are below the old ones; `--areas` prints the folders one by one.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import statistics
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from knowgate.offline_eval.cli import app

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("guard", "calibration", "adapters", "offline_eval", "knowgate")
LIMITS = Path(__file__).with_name("size_limits.json")
# Shorter code by longer functions or lines would be no gain.
_KEPT = ("median lines of a function", "median width of a line")
_OF_EVERY_COMMAND = {"help", "install_completion", "show_completion"}
_IGNORED = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_HasDocstring = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def product_files() -> list[Path]:
    """Every Python file of the product, sorted; what links lead to is counted once."""
    return sorted(path for name in PRODUCT for path in (ROOT / name).rglob("*.py"))


def code_lines(source: str) -> set[int]:
    """Return the numbers of the lines that hold code.

    Docstrings, comments, blank lines and imports are no code; a text over several lines is.

    Args:
        source: of a module.
    """
    aside: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            aside.update(_lines(node))
        elif isinstance(node, _HasDocstring) and ast.get_docstring(node, clean=False) is not None:
            aside.update(_lines(node.body[0]))
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _IGNORED:
            found.update(range(token.start[0], token.end[0] + 1))
    return found - aside


def exported_names(source: str) -> list[str]:
    """Return the names in `__all__` of a module.

    Args:
        source: of a module.
    """
    for node in ast.parse(source).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(one, ast.Name) and one.id == "__all__" for one in targets):
            listed = (one for one in ast.walk(node) if isinstance(one, ast.Constant))
            return [str(one.value) for one in listed]
    return []


def counts() -> dict[str, int]:
    """Count code, names, commands, tests and pages of this checkout."""
    sources = {path: path.read_text(encoding="utf-8") for path in product_files()}
    names = {name for source in sources.values() for name in exported_names(source)}
    tree = {path: ast.parse(source) for path, source in sources.items()}
    commands, options = _command_line()
    return {
        "code lines": sum(len(code_lines(source)) for source in sources.values()),
        "files": len(sources),
        "classes": sum(
            isinstance(node, ast.ClassDef) for one in tree.values() for node in ast.walk(one)
        ),
        "public names": len(names),
        "commands": commands,
        "options": options,
        "test lines": sum(len(text.splitlines()) for text in _test_sources()),
        "pages": sum(1 for _ in (ROOT / "docs").rglob("*.md")),
        _KEPT[0]: int(statistics.median(_function_lengths(tree.values()))),
        _KEPT[1]: int(statistics.median(_widths(sources.values()))),
    }


def areas() -> Counter[str]:
    """Count the code lines of each folder of the product, two levels deep."""
    found: Counter[str] = Counter()
    for path in product_files():
        folder = "/".join(path.relative_to(ROOT).parts[:-1][:3])
        found[folder] += len(code_lines(path.read_text(encoding="utf-8")))
    return found


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _test_sources() -> Iterator[str]:
    for path in sorted((ROOT / "tests").rglob("*.py")):
        yield path.read_text(encoding="utf-8")


def _function_lengths(trees: Iterable[ast.Module]) -> Iterator[int]:
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, _Function):
                yield len(_lines(node))


def _widths(sources: Iterable[str]) -> Iterator[int]:
    for source in sources:
        lines = source.splitlines()
        for number in code_lines(source):
            yield len(lines[number - 1].strip())


def _command_line() -> tuple[int, int]:
    """Count commands that do something, and their options without `--help`."""
    commands = options = 0
    root: Any = get_command(app)
    waiting: list[Any] = [root]
    while waiting:
        command = waiting.pop()
        inner = getattr(command, "commands", None)
        if inner is None or (command is not root and command.invoke_without_command):
            commands += 1
            options += sum(
                one.param_type_name == "option" and one.name not in _OF_EVERY_COMMAND
                for one in command.params
            )
        if inner is not None:
            context = command.context_class(command)
            waiting += [
                command.get_command(context, name) for name in command.list_commands(context)
            ]
    return commands, options


def _above(found: dict[str, int], limits: dict[str, int]) -> list[str]:
    return [
        f"{name}: {found[name]:,}, at most {limit:,}"
        for name, limit in limits.items()
        if found[name] > limit
    ]


def main() -> None:
    """Print the counts, or hold them below the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit 1 above a limit")
    parser.add_argument("--lower", action="store_true", help="write lower counts as limits")
    parser.add_argument("--areas", action="store_true", help="print code lines by folder")
    chosen = parser.parse_args()
    if chosen.areas:
        for folder, lines in sorted(areas().items()):
            print(f"{lines:7,}  {folder}")
        return
    found = counts()
    limits: dict[str, int] = json.loads(LIMITS.read_text(encoding="utf-8"))
    for name, count in found.items():
        print(f"{name:28} {count:7,}  at most {limits[name]:7,}")
    if chosen.lower:
        lowered = {name: min(limits[name], count) for name, count in found.items()}
        LIMITS.write_text(json.dumps(lowered, indent=2) + "\n", encoding="utf-8")
    above = _above(found, limits)
    if chosen.check and above:
        sys.exit(f"more than {LIMITS.name} allows: {'; '.join(above)}")


if __name__ == "__main__":
    main()
