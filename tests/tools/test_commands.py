"""Every tool can be started, and what it writes is where the product reads it."""

from __future__ import annotations

import re
import runpy
import sys

import pytest

from tests.support.paths import ROOT

README = (ROOT / "tools" / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"`python -m (tools[\w.]+)", README)


def test_the_readme_names_every_tool() -> None:
    scripts = [
        path
        for path in (ROOT / "tools").rglob("*.py")
        # exits.py starts itself, to be ended.
        if "__main__" in path.read_text(encoding="utf-8") and path.name != "exits.py"
    ]
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in scripts}
    assert names == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_tool_explains_its_options(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--help"])

    with pytest.raises(SystemExit) as stopped:
        runpy.run_module(name, run_name="__main__")

    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    [arguments] = re.findall(rf"{re.escape(name)}(?!\w)(.*?)`", README)
    assert [one for one in arguments.split() if one.startswith("--") and one not in shown] == []


def test_the_files_that_the_readme_names_are_there() -> None:
    for path in re.findall(r"`((?:guard|offline_eval)/[\w/.]+)`", README):
        assert (ROOT / path).exists(), path
