"""`knowgate kg generate`."""

from __future__ import annotations

import json
from pathlib import Path

import pyoxigraph
import pytest

import knowgate.offline_eval.cli._kg
from knowgate.offline_eval.testbed import default_world
from tests.offline_eval.cli.commands import Knowgate
from tests.offline_eval.data.graph.endpoint_server import Endpoint, serving
from tests.offline_eval.data.graph.graphs import WikidataLike

assert knowgate.offline_eval.cli._kg.kg_app


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("people") / "people.nt"
    path.write_text(WikidataLike().text(), encoding="utf-8")
    return path


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


def test_options_reach_the_generator(knowgate: Knowgate, people: Path, tmp_path: Path) -> None:
    texts = tmp_path / "mine.toml"
    texts.write_text(
        '[[property]]\niri = "http://www.wikidata.org/entity/P39"\n'
        '[property.en]\ntime_year = "Which office had {subject} in {year}?"\n'
        'time_between = "Which office had {subject} from {start} to {end}?"\n'
    )
    folder = tmp_path / "set"
    said = knowgate(
        "kg", "generate", people, "--out", folder, "--types", "time", "--include", "P39",
        "--templates", texts, "--per-type", 5, "--examples", 4, "--seed", 3,
    )  # fmt: skip
    assert said.code == 0
    assert "time 5 + 5" in said.out
    rows = json.loads((folder / "task1" / "timeqa_ua_en_v2.json").read_text(encoding="utf-8"))
    assert all(row["question"].startswith("Which office had ") for row in rows)
    manifest = json.loads((folder / "generation.json").read_text())
    assert manifest["settings"]["seed"] == 3
    assert list(manifest["templates"]) == ["mine.toml"]
    assert manifest["graph"]["name"] == "people.nt"
    assert str(tmp_path) not in json.dumps(manifest)


@pytest.mark.slow
@pytest.mark.enable_socket
def test_an_endpoint_becomes_a_set(knowgate: Knowgate, tmp_path: Path) -> None:
    store = pyoxigraph.Store()
    store.load(default_world().to_ntriples(), pyoxigraph.RdfFormat.N_TRIPLES)
    with serving(Endpoint(store)) as endpoint:
        said = knowgate(
            "kg", "generate", endpoint.url, "--out", tmp_path / "set", "--per-type", 10,
            "--endpoint", "pause=0,user-agent=me@example.org",
        )  # fmt: skip
    assert said.code == 0, said.err
    assert "inter 10 + 10" in said.out
    assert set(endpoint.agents) == {"me@example.org"}


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
