"""The pictures of the README: all there, light and dark, and small."""

from __future__ import annotations

from xml.etree import ElementTree

from tests.support.paths import ROOT
from tools.pictures import SHOTS

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
