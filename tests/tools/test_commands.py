"""Every tool can be started, and the pictures of the README are all there."""

from __future__ import annotations

import re
import runpy
import sys
from xml.etree import ElementTree

import pytest

from tests.support.paths import ROOT
from tools.pictures import SHOTS

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


PICTURES = ROOT / "docs" / "pictures"


def test_every_picture_is_there_in_both_schemes() -> None:
    names = {
        f"{name}-{scheme}.png" for name in (*SHOTS, "dashboard") for scheme in ("light", "dark")
    }
    assert names <= {path.name for path in PICTURES.glob("*.png")}


def test_pictures_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in PICTURES.iterdir()}
    assert max(sizes.values()) < 300_000, sizes
    assert sum(sizes.values()) < 1_000_000, sizes


def test_the_diagram_of_the_routes_names_them() -> None:
    drawn = ElementTree.parse(PICTURES / "routes.svg").getroot()
    texts = {"".join(one.itertext()) for one in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert {"follow_context", "answer", "abstain"} <= texts
