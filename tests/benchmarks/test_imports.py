"""What benchmarks, examples and tools import of knowgate and of each other is there."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from pathlib import Path

from tests.support.paths import BENCHMARKS, ROOT

SCRIPTS = [
    path for name in ("benchmarks", "examples", "tools") for path in (ROOT / name).rglob("*.py")
]


def imports(path: Path) -> list[tuple[str, list[str]]]:
    """Every module that a file imports, with the names it takes from it."""
    found: list[tuple[str, list[str]]] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.append((node.module, [alias.name for alias in node.names]))
        elif isinstance(node, ast.Import):
            found += [(alias.name, []) for alias in node.names]
    return found


def is_there(module: str, name: str) -> bool:
    """Whether `from module import name` works."""
    return (
        hasattr(importlib.import_module(module), name)
        or importlib.util.find_spec(f"{module}.{name}") is not None
    )


def test_every_name_that_a_script_imports_is_there() -> None:
    for path in SCRIPTS:
        missing = [
            f"{module}.{name}"
            for module, names in imports(path)
            if module.split(".")[0] == "knowgate"
            for name in names
            if not is_there(module, name)
        ]
        assert missing == []


def test_every_name_that_a_benchmark_takes_from_another_is_there() -> None:
    for path in sorted(BENCHMARKS.glob("*.py")):
        missing = []
        for module, names in imports(path):
            other = BENCHMARKS / f"{module}.py"
            if other.is_file():
                text = other.read_text(encoding="utf-8")
                defined = {
                    getattr(target, "id", None) or getattr(node, "name", None)
                    for node in ast.parse(text).body
                    for target in [*getattr(node, "targets", []), getattr(node, "target", None)]
                } | {name for _, taken in imports(other) for name in taken}
                missing += [f"{module}.{name}" for name in names if name not in defined]
        assert missing == []
