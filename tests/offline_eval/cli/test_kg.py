"""`knowgate kg generate`."""

from __future__ import annotations

import json
from pathlib import Path

import pyoxigraph
import pytest

import knowgate.offline_eval.cli._kg
from knowgate.offline_eval.testbed import default_world
from tests.offline_eval.cli.commands import Knowgate, refused
from tests.offline_eval.data.graph.endpoint_server import Endpoint, always, serving
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


def test_a_dry_run_lists_the_properties_and_writes_nothing(
    knowgate: Knowgate, people: Path, tmp_path: Path
) -> None:
    said = knowgate("kg", "generate", people, "--dry-run")
    listed = json.loads(knowgate("kg", "generate", people, "--dry-run", "--json").out)
    assert said.code == 0
    assert "identifier, address or picture" in said.out
    found = {row["iri"].rsplit("/")[-1]: row for row in listed["properties"]}
    assert found["P39"]["used"]
    assert found["P39"]["left_out"] is None
    assert found["P39"]["dated"] > 40
    assert found["P569"]["values"] == "year"
    assert found["P569"]["values_per_subject"] == 1.0
    assert not found["P2002"]["used"]


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
def test_an_endpoint_that_refuses_is_one_line(knowgate: Knowgate, tmp_path: Path) -> None:
    with serving(Endpoint(pyoxigraph.Store(), fault=always(403))) as endpoint:
        said = knowgate("kg", "generate", endpoint.url, "--out", tmp_path / "set")
    assert said.code == 2
    assert "not allowed" in said.err
    assert not (tmp_path / "set").exists()


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


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--out", "set", "--types", "inter,date"], ["date", "--types"]),
        (["--out", "set", "--lang", "fr"], ["fr", "--templates"]),
        (["--out", "set", "--properties", "functional=mostly"], ["functional"]),
        (["--out", "set", "--include", "P99999"], ["P99999", "--include"]),
        (["--out", "set", "--templates", "none.toml"], ["none.toml"]),
        ([], ["--out"]),
    ],
)
def test_wrong_options_are_refused_and_nothing_is_written(
    knowgate: Knowgate,
    people: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: list[str],
    words: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    said = knowgate("kg", "generate", people, *given)
    assert said.code == 2
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert all(word in said.err for word in words)
    assert list(tmp_path.iterdir()) == []


def test_graphs_that_give_nothing_are_refused(knowgate: Knowgate, tmp_path: Path) -> None:
    (tmp_path / "empty.nt").write_text("")
    refused(
        knowgate("kg", "generate", tmp_path / "empty.nt", "--out", tmp_path / "set"),
        "no questions",
        "--dry-run",
    )
    refused(
        knowgate("kg", "generate", tmp_path / "none.nt", "--out", tmp_path / "set"), "no such file"
    )
    (tmp_path / "broken.nt").write_text("<a> <b>")
    refused(
        knowgate("kg", "generate", tmp_path / "broken.nt", "--out", tmp_path / "set"),
        "broken.nt:1",
    )
    assert not (tmp_path / "set").exists()


def test_a_folder_with_something_in_it_is_refused_before_the_graph_is_read(
    knowgate: Knowgate, tmp_path: Path
) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "notes.txt").write_text("mine")
    refused(
        knowgate("kg", "generate", tmp_path / "none.nt", "--out", tmp_path / "set"), "not an empty"
    )
