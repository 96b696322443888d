"""The bundled language model: its file, its loading, and a part of the check."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from knowgate.guard.errors import ModelFolderError
from knowgate.offline_eval.testbed import World, default_world
from knowgate.offline_eval.testbed.check import microworld_model_path
from tools.microworld.check import Answerer, Measure, MicroworldCheck

pytestmark = pytest.mark.slow


def test_the_bundled_weights_have_the_recorded_sha256() -> None:
    assert (microworld_model_path() / "model.safetensors").stat().st_size <= 12_000_000


def test_a_wrong_sha256_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(microworld_model_path(), folder)
    with (folder / "model.safetensors").open("ab") as file:
        file.write(b"x")
    with pytest.raises(ModelFolderError, match="sha256"):
        microworld_model_path(folder)


def test_generation_stops_at_the_newline() -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model: Any = AutoModelForCausalLM.from_pretrained(str(microworld_model_path()))
    tokenizer: Any = AutoTokenizer.from_pretrained(str(microworld_model_path()))
    question = default_world().questions(default_world().facts[0])[0]
    prompt = World.prompt("closed_book").format(question=question.text)
    given = tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
    output = model.generate(**given, max_new_tokens=40)
    reply = tokenizer.decode(output[0])[len(prompt) :]
    assert reply.startswith(" ")
    assert reply.count("\n") == 1
    assert reply.endswith("\n")


def test_batched_answers_equal_single_ones() -> None:
    answerer = Answerer(microworld_model_path())
    world = default_world()
    prompts = [
        World.prompt("with_context").format(
            context=world.document_for(fact).text, question=world.questions(fact)[0].text
        )
        for fact in world.facts[:200:10]
    ]
    together = answerer.greedy(prompts)
    alone = [answerer.greedy([prompt])[0] for prompt in prompts]
    assert together == alone


def test_the_recorded_check_meets_every_target() -> None:
    manifest = json.loads((microworld_model_path() / "training.json").read_text())
    recorded = {name: Measure(**entry) for name, entry in manifest["check"].items()}
    assert MicroworldCheck(recorded).misses() == ()
    assert min(recorded[name].n for name in ("conflict", "external_only", "parametric_only")) >= 400
