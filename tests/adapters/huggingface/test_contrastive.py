"""CAD and COIECD: the formulas, and decoding with them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from transformers import LogitsProcessor

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.adapters.huggingface._contrastive import cad_scores, coiecd_scores, merging_rule


class PairedProcessor(LogitsProcessor):  # type: ignore[misc,unused-ignore]
    """Replaces both halves of a doubled batch by their merged scores."""

    def __init__(self, method: str, lam: float = 0.25) -> None:
        self._merge = merging_rule(method, 1.0, lam)

    def __call__(self, input_ids: Any, scores: torch.Tensor) -> torch.Tensor:
        merged = self._merge(*scores.chunk(2))
        return torch.cat([merged, merged])


def contrastive_ids(
    lm: HuggingFaceLM, with_context: list[str], without_context: list[str], method: str = "coiecd"
) -> list[list[int]]:
    """Every token id of our own contrastive answers, an end token included."""
    contextual, bare = (
        [lm.engine.encoder.render(text) for text in side]
        for side in (with_context, without_context)
    )
    rule = (method, 1.0, 0.25)
    return [answer.ids for answer in lm.engine.contrast(contextual, bare, rule, lm.settings())]


def pair(rows: int = 40, width: int = 50, scale: float = 2.0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    with_context = torch.randn(rows, width, generator=generator).double() * scale
    without = torch.randn(rows, width, generator=generator).double() * scale
    return with_context, without


def coiecd_by_hand(lc: list[float], lu: list[float], alpha: float, lam: float) -> list[float]:
    """The definition, one token at a time, in plain Python."""
    entropy = -sum(math.exp(value) * value for value in lu)
    shift = [-value - entropy for value in lc]
    total = math.log(sum(math.exp(value) for value in shift))
    s = [value - total for value in shift]
    lower, upper = min(s) + math.log(1 / lam), max(s) - math.log(1 / lam)
    below = [value < lower for value in s]
    if sum(below) == 1:
        below = [False] * len(s)
    return [
        (c if b or value > upper else u) + alpha * (c - u)
        for c, u, b, value in zip(lc, lu, below, s, strict=True)
    ]


@pytest.mark.parametrize(("alpha", "lam"), [(1.0, 0.25), (0.3, 0.1), (2.0, 0.9), (0.0, 0.5)])
def test_coiecd_equals_the_definition_token_by_token(alpha: float, lam: float) -> None:
    with_context, without = pair()

    scores = coiecd_scores(with_context, without, alpha=alpha, lam=lam)

    for row, lc, lu in zip(
        scores, with_context.log_softmax(-1), without.log_softmax(-1), strict=True
    ):
        expected = coiecd_by_hand(lc.tolist(), lu.tolist(), alpha, lam)
        torch.testing.assert_close(row, torch.tensor(expected, dtype=torch.double))


def test_with_one_likely_token_coiecd_starts_from_the_stream_without_context() -> None:
    with_context = torch.tensor([[9.0, 2.0, 1.5, 0.0, -4.0]])
    without = torch.tensor([[1.0, 2.0, 0.5, 1.0, 0.0]])
    lc, lu = with_context.log_softmax(-1), without.log_softmax(-1)

    scores = coiecd_scores(with_context, without, alpha=0.5)

    torch.testing.assert_close(scores[0, 0], (lu + 0.5 * (lc - lu))[0, 0])
    torch.testing.assert_close(scores[0, -1], (lc + 0.5 * (lc - lu))[0, -1])


def test_cad_equals_its_formula() -> None:
    with_context, without = pair()

    scores = cad_scores(with_context, without, alpha=0.7)

    lc, lu = with_context.log_softmax(-1), without.log_softmax(-1)
    torch.testing.assert_close(scores, 1.7 * lc - 0.7 * lu)


@pytest.mark.parametrize("rule", [cad_scores, coiecd_scores])
def test_equal_streams_leave_the_ranking_as_it_is(rule: Any) -> None:
    logits, _ = pair()

    torch.testing.assert_close(rule(logits, logits), logits.log_softmax(-1))


@pytest.mark.parametrize("rule", [cad_scores, coiecd_scores])
def test_impossible_tokens_stay_impossible_and_give_no_nan(rule: Any) -> None:
    with_context, without = pair()
    with_context[:, 3] = -math.inf
    without[:, 3:5] = -math.inf

    scores = rule(with_context, without)

    assert not scores.isnan().any()
    assert (scores[:, 3] == -math.inf).all()
    assert scores[:, 4].isfinite().all()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["cad", "coiecd"])
def test_decoding_equals_model_generate_with_a_logits_processor(
    lm: HuggingFaceLM, model: Any, tokenizer: Any, method: Any
) -> None:
    processor = PairedProcessor(method)
    for number in range(6):
        contextual, bare = f"context {number * 77} here. ask {number}", f"ask {number}"
        rows = [tokenizer(text)["input_ids"] for text in (contextual, bare)]
        gap = len(rows[0]) - len(rows[1])
        ids = torch.tensor([rows[0], [0] * gap + rows[1]])
        mask = torch.tensor([[1] * len(rows[0]), [0] * gap + [1] * len(rows[1])])

        made = model.generate(
            ids,
            attention_mask=mask,
            logits_processor=[processor],
            do_sample=False,
            max_new_tokens=12,
            pad_token_id=0,
        )
        [found] = contrastive_ids(lm, [contextual], [bare], method)

        assert made[0, ids.shape[1] :].tolist() == made[1, ids.shape[1] :].tolist()
        assert found == made[0, ids.shape[1] :].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["cad", "coiecd"])
def test_batching_does_not_change_contrastive_answers(
    lm: HuggingFaceLM, prompts: list[str], method: Any
) -> None:
    contextual = [f"given {'c' * (n % 23)}: {prompt}" for n, prompt in enumerate(prompts[:12])]

    batched = contrastive_ids(lm, contextual, prompts[:12], method)

    alone = [
        contrastive_ids(lm, [c], [p], method)[0] for c, p in zip(contextual, prompts, strict=False)
    ]
    assert batched == alone


def test_alpha_zero_cad_is_greedy_decoding_with_context(
    lm: HuggingFaceLM, prompts: list[str]
) -> None:
    found = lm.generate_contrastive(prompts[:8], prompts[20:28], "cad", alpha=0.0)

    assert found == [row[0].text for row in lm.generate(prompts[:8])]


def test_contrastive_answers_stop_at_stop_strings(lm: HuggingFaceLM, prompts: list[str]) -> None:
    free = lm.generate_contrastive(prompts[:15], prompts[30:45])
    letter = max(set("".join(free)) - {"\ufffd"}, key="".join(free).count)

    stopped = lm.generate_contrastive(prompts[:15], prompts[30:45], stop=[letter])

    assert stopped == [text.split(letter)[0] for text in free]
