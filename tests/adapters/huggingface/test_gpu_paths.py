"""What runs on a GPU only, on the CPU: the same code without CUDA graphs."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from knowgate.adapters.huggingface import HuggingFaceLM, LoadOptions
from knowgate.adapters.huggingface._loading import choose_dtype
from knowgate.adapters.huggingface._static_decoding import shape_of
from knowgate.guard.errors import MissingDependencyError

PROMPTS = ["the library", "when is the long and winding road open", "x"]
Work = Callable[[], Any]


class Captures:
    """Stands in for CUDA graphs; every replay overwrites the same output."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails, self.tried, self.replays = fails, 0, 0

    def __call__(self, work: Work, device: torch.device) -> Work:
        self.tried += 1
        if self.fails:
            raise RuntimeError("operation not permitted when stream is capturing")
        kept: list[torch.Tensor] = []

        def replay() -> torch.Tensor:
            self.replays += 1
            kept.append(work())
            with torch.inference_mode():
                kept[0].copy_(kept[-1])
            return kept[0]

        return replay


@pytest.fixture
def fixed(model: Any, tokenizer: Any) -> tuple[HuggingFaceLM, Captures]:
    """A model that decodes short answers on a fixed cache."""
    lm, captures = HuggingFaceLM.from_objects(model, tokenizer, max_new_tokens=12), Captures()
    lm.engine.network.use_fixed_cache(captures)
    return lm, captures


def test_a_fixed_cache_gives_the_same_answers(
    fixed: tuple[HuggingFaceLM, Captures], model: Any, tokenizer: Any
) -> None:
    lm, captures = fixed
    usual = HuggingFaceLM.from_objects(model, tokenizer, max_new_tokens=12)
    for n, temperature in ((1, 0.0), (4, 1.0), (2, 0.5)):
        options: dict[str, Any] = {"n": n, "temperature": temperature, "seed": 5}
        expected = usual.generate(PROMPTS, **options)
        found = lm.generate(PROMPTS, **options)
        assert [[one.text for one in row] for row in found] == [
            [one.text for one in row] for row in expected
        ]
        for row, same in zip(found, expected, strict=True):
            for one, other in zip(row, same, strict=True):
                assert one.token_logprobs == pytest.approx(other.token_logprobs, abs=1e-5)
    assert captures.tried == 3
    assert captures.replays > 10


def test_a_shape_that_comes_again_keeps_its_graph(fixed: tuple[HuggingFaceLM, Captures]) -> None:
    lm, captures = fixed
    first = lm.generate(PROMPTS)
    assert lm.generate(list(reversed(PROMPTS)))[::-1] == first
    assert captures.tried == 1


def test_contrastive_answers_are_the_same_on_a_fixed_cache(
    fixed: tuple[HuggingFaceLM, Captures], model: Any, tokenizer: Any
) -> None:
    usual = HuggingFaceLM.from_objects(model, tokenizer, max_new_tokens=12)
    plain = [f"Q: {prompt}" for prompt in PROMPTS]
    assert fixed[0].generate_contrastive_ids(PROMPTS, plain) == usual.generate_contrastive_ids(
        PROMPTS, plain
    )


def test_long_answers_are_decoded_as_usual(fixed: tuple[HuggingFaceLM, Captures]) -> None:
    lm, captures = fixed
    lm.generate(PROMPTS[:1], max_new_tokens=65)
    assert captures.tried == 0


def test_decodes_without_graphs_where_a_capture_fails(
    fixed: tuple[HuggingFaceLM, Captures], caplog: pytest.LogCaptureFixture
) -> None:
    lm, captures = fixed
    expected = lm.generate(PROMPTS)
    static = lm.engine.network.static
    assert static is not None
    static._kept.clear()
    static.capture = captures = Captures(fails=True)
    assert lm.generate(PROMPTS) == expected
    assert lm.generate(PROMPTS) == expected
    assert captures.tried == 1
    assert "without CUDA graphs" in caplog.text


def test_memory_that_runs_out_while_capturing_halves_the_batch(
    fixed: tuple[HuggingFaceLM, Captures],
) -> None:
    lm, captures = fixed
    expected = lm.generate(PROMPTS)
    static = lm.engine.network.static
    assert static is not None
    static._kept.clear()
    tried: list[int] = []

    def capture(work: Work, device: torch.device) -> Work:
        tried.append(1)
        if len(tried) == 1:
            raise torch.OutOfMemoryError
        return captures(work, device)

    static.capture = capture
    assert [row[0].text for row in lm.generate(PROMPTS)] == [row[0].text for row in expected]
    assert len(tried) > 1


def test_shapes_are_few_and_hold_what_is_asked() -> None:
    shapes = {shape_of(rows, 100) for rows in range(1, 1025)}
    assert len(shapes) < 50
    for rows in range(1, 1025):
        assert rows <= shape_of(rows, 100)[0] <= rows * 5 / 4


def test_a_gpus_memory_says_how_many_rows_run_together(
    model: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm = HuggingFaceLM.from_objects(model, tokenizer, max_new_tokens=4, stop=())
    network = lm.engine.network
    prompts = [f"prompt {number:02d}" for number in range(16)]
    longest = len(lm.token_ids(prompts[0])) + 4
    monkeypatch.setattr(network, "free_bytes", lambda: 2 * 24 * network.answer_bytes(longest))
    sizes: list[int] = []
    forward = network.forward

    def counted(ids: torch.Tensor, *given: Any, **options: Any) -> Any:
        sizes.append(len(ids))
        return forward(ids, *given, **options)

    monkeypatch.setattr(network, "forward", counted)
    lm.generate(prompts, n=4, temperature=1.0, seed=0)
    # 24 answers of 6 prompts: prompts are read once, in one pass.
    assert [sizes[0], sizes[1]] == [6, 24]

    asked = HuggingFaceLM.from_objects(model, tokenizer, max_new_tokens=4, batch_size=8)
    monkeypatch.setattr(asked.engine.network, "free_bytes", lambda: 1)
    assert len(asked.generate(prompts)) == 16


def test_one_answers_memory_counts_keys_values_and_logits(lm: HuggingFaceLM) -> None:
    # 2 layers, 2 key-value heads of 16 numbers in float32, keys and values, held twice.
    assert lm.engine.network.answer_bytes(10) == 2 * 10 * (2 * 2 * 2 * 16 * 4) + 32 * 264


def test_cuda_computes_in_bfloat16_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = torch.device("cuda:0")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    assert choose_dtype("auto", cuda) is torch.bfloat16
    assert choose_dtype("float32", cuda) is torch.float32
    assert choose_dtype("auto", torch.device("cpu")) is torch.float32
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    assert choose_dtype("auto", cuda) == "auto"


def test_layers_can_be_spread_over_devices(folder: Path) -> None:
    pytest.importorskip("accelerate")
    spread = HuggingFaceLM(folder, loading=LoadOptions(device_map="cpu"))
    plain = HuggingFaceLM(folder, device="cpu")
    assert spread.generate(PROMPTS) == plain.generate(PROMPTS)
    assert spread.fingerprint == plain.fingerprint


def test_spreading_layers_without_accelerate_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(MissingDependencyError, match=r"accelerate.*knowgate\[gpu\]"):
        HuggingFaceLM(folder, loading=LoadOptions(device_map="auto"))


def test_the_fingerprint_follows_the_configuration(folder: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    same = HuggingFaceLM(other).fingerprint
    assert same == HuggingFaceLM(folder).fingerprint
    config = json.loads((other / "config.json").read_text(encoding="utf-8"))
    config["rms_norm_eps"] = 1e-3
    (other / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert HuggingFaceLM(other).fingerprint != same
    config["rms_norm_eps"], config["transformers_version"] = 1e-6, "0"
    (other / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    assert HuggingFaceLM(other).fingerprint == same
