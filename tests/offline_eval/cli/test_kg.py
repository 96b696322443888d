"""`knowgate kg generate`."""

from __future__ import annotations

import json
from pathlib import Path

import pyoxigraph
import pytest

import knowgate.offline_eval.cli._kg
from tests.offline_eval.cli.commands import Knowgate
from tests.offline_eval.data.graph.endpoint_server import Endpoint, serving

assert knowgate.offline_eval.cli._kg.kg_app


@pytest.mark.slow
def test_the_microworld_becomes_a_set_that_the_suite_reads(
    knowgate: Knowgate, tmp_path: Path
) -> None:
    folder = tmp_path / "set"
    said = knowgate(
        "kg", "generate", "microworld", "--out", folder, "--lang", "en,zh", "--per-type", 100
    )
    assert said.code == 0
    assert "en: 600 questions" in said.out
    assert "note: " not in said.out
    said = knowgate("eval", "uaqfact", "--data", folder, "--dry-run", "--json")
    assert said.code == 0
    found = json.loads(said.out)
    assert found["total"] == {"en": 600, "zh": 600}
    assert found["counts"]["task3"]["zh"]["time"] == {"ua": 100, "ab": 100}


@pytest.mark.enable_socket
def test_a_password_in_an_address_is_not_shown(knowgate: Knowgate, tmp_path: Path) -> None:
    with serving(Endpoint(pyoxigraph.Store())) as endpoint:
        address = endpoint.url.replace("//", "//me:secret@")
        said = knowgate(
            "kg", "generate", address, "--out", tmp_path / "set", "--endpoint", "pause=0"
        )
    assert said.code == 2
    assert "gives no questions" in said.err
    assert "secret" not in said.err + said.out
