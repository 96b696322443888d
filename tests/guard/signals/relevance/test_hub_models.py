"""`hf:`: presets, hub ids and folders; the hub is asked for a hub id only."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import errors

from knowgate.guard import InputError
from knowgate.guard.engine import BiEncoderScorer, CrossEncoderScorer
from knowgate.guard.errors import ModelFolderError
from knowgate.guard.signals.relevance import load_scorer
from knowgate.guard.signals.relevance.registry import PRESETS, scorer_names
from tests.support.paths import ROOT
from tools.attack.tiny_models import tiny_cross_encoder, tiny_encoder


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_cross_encoder(tmp_path_factory.mktemp("models") / "reranker")


class Hub:
    """Stands for the hub: gives a folder or raises, and notes what it was asked for."""

    def __init__(self, gives: Path | Exception | threading.Event) -> None:
        self.gives = gives
        self.asked: list[str] = []
        self.options: dict[str, Any] = {}

    def __call__(self, model: str, **options: Any) -> str:
        self.asked.append(model)
        self.options = options
        if isinstance(self.gives, Exception):
            raise self.gives
        if isinstance(self.gives, threading.Event):
            self.gives.wait(60)
        return str(self.gives)


@pytest.fixture
def hub(reranker: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    found = Hub(reranker)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", found)
    yield found
    if isinstance(found.gives, threading.Event):
        found.gives.set()


def test_no_code_and_no_pickles_are_downloaded(hub: Hub) -> None:
    load_scorer("hf:someone/reranker", device="cpu")
    assert hub.options["revision"] is None
    assert 0 < hub.options["etag_timeout"] <= 30
    assert not {"*.py", "*.bin", "*.pt", "*"} & set(hub.options["allow_patterns"])


def test_a_revision_is_asked_for(hub: Hub) -> None:
    load_scorer("hf:someone/reranker@v1.0,device=cpu")
    assert (hub.asked, hub.options["revision"]) == (["someone/reranker"], "v1.0")


def test_the_hub_is_not_asked_for_a_folder_or_a_name(
    hub: Hub, reranker: Path, tmp_path: Path
) -> None:
    assert isinstance(load_scorer(f"hf:{reranker}", device="cpu"), CrossEncoderScorer)
    encoder = tiny_encoder(tmp_path / "encoder")
    assert isinstance(load_scorer(f"hf:{encoder}", device="cpu"), BiEncoderScorer)
    for name in ("lexical", "sufficiency"):
        load_scorer(name)
    for name in ("someone/reranker", "ms-marco-MiniLM-L6-v2", "Qwen3-Reranker-0.6B"):
        with pytest.raises(InputError, match=r"unknown scorer .* or hf:ID"):
            load_scorer(name)
    assert hub.asked == []


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        ("GatedRepoError", "accept the licence"),
        ("RepositoryNotFoundError", "check the id"),
        ("RevisionNotFoundError", "behind the @"),
        ("OfflineModeIsEnabled", "unset HF_HUB_OFFLINE"),
        ("LocalEntryNotFoundError", "check the connection"),
        ("HFValidationError", "download the model first"),
    ],
)
def test_failures_of_the_hub_say_what_to_do(kind: str, hint: str, hub: Hub) -> None:
    error = getattr(errors, kind)
    hub.gives = error.__new__(error)
    with pytest.raises(ModelFolderError, match=hint) as raised:
        load_scorer("hf:someone/reranker")
    assert "someone/reranker" in str(raised.value)
    assert kind in str(raised.value)
    assert "\n" not in str(raised.value)


def test_without_the_network_a_missing_model_is_an_error() -> None:
    # Tests run with HF_HUB_OFFLINE=1.
    with pytest.raises(ModelFolderError, match="HF_HUB_OFFLINE"):
        load_scorer("hf:someone/that-was-never-downloaded")


def test_a_hub_that_stands_still_ends_at_the_deadline(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.gives = threading.Event()
    monkeypatch.setattr("knowgate.guard.engine.model_folder._DOWNLOAD_SECONDS", 0.05)
    with pytest.raises(ModelFolderError, match="not downloaded within"):
        load_scorer("hf:someone/reranker")


def test_presets_are_whole_and_in_the_docs() -> None:
    page = (ROOT / "docs" / "how-to" / "choose-a-scorer.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `hf:(?!MODEL).*", page, re.M)
    assert len(rows) == len(PRESETS) == 9
    for (name, preset), row in zip(PRESETS.items(), rows, strict=True):
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        link = f"[{preset.hub_id}](https://huggingface.co/{preset.hub_id})"
        size = f"{preset.millions} M"
        assert cells == [f"`hf:{name}`", link, size, preset.licence, preset.means]
        assert preset.hub_id.rsplit("/", 1)[1] == name
        assert name not in scorer_names()
