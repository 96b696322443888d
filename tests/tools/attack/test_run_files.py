"""A damaged file of a run is one line and exit code 2, whichever command reads it."""

from __future__ import annotations

import pytest

from tools.attack.run_files import RUNS, WHOLE_FILE, DamagedRuns, field_damages

KINDS = {kind.name: kind for kind in RUNS}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> DamagedRuns:
    return DamagedRuns(tmp_path_factory.mktemp("served"), full=False, only="served")


@pytest.fixture(scope="module")
def conflict(tmp_path_factory: pytest.TempPathFactory) -> DamagedRuns:
    return DamagedRuns(tmp_path_factory.mktemp("conflict"), full=False, only="conflict")


@pytest.mark.parametrize("damage", ["a line NaN", "a line {}", "zeros", "a folder"])
def test_a_run_is_not_continued_over_damaged_passages(served: DamagedRuns, damage: str) -> None:
    kind = KINDS["served"]
    assert not served.disorderly((kind, "passages.jsonl", kind.make, WHOLE_FILE[damage]))


def test_a_passage_without_its_id_is_an_error_of_the_run(served: DamagedRuns) -> None:
    kind = KINDS["served"]
    damages = field_damages(served.folder / "served" / "passages.jsonl")
    for name in ("passage_id gone", 'passage_id = [["x"]]', "text = null"):
        assert not served.disorderly((kind, "passages.jsonl", kind.make, damages[name])), name


@pytest.mark.parametrize("name", ["settings", "settings.kinds", "settings.answers"])
def test_settings_of_another_type_are_one_line(conflict: DamagedRuns, name: str) -> None:
    kind = KINDS["conflict"]
    damages = field_damages(conflict.folder / "conflict" / "manifest.json")
    for wrong in ('[["x"]]', "null", '"\\ud800"'):
        damage = damages[f"{name} = {wrong}"]
        assert not conflict.disorderly((kind, "manifest.json", kind.read[0], damage)), wrong


def test_a_key_that_utf8_cannot_hold_is_no_traceback(conflict: DamagedRuns) -> None:
    kind = KINDS["conflict"]
    damages = field_damages(conflict.folder / "conflict" / "instances.jsonl")
    damage = damages['key = "\\ud800"']
    assert not conflict.disorderly((kind, "instances.jsonl", kind.make, damage))
