"""Memory, kinds of models and tokenizers, option scores and hidden states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.guard import LanguageModelError

TEMPLATE = (
    "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)
Make = Callable[..., Any]


@contextmanager
def memory_for(model: Any, rows: int) -> Iterator[list[int]]:
    """A device whose memory holds `rows` rows; yields the batch sizes that were tried."""
    tried: list[int] = []

    def check(_: Any, __: Any, arguments: dict[str, Any]) -> None:
        tried.append(len(arguments["input_ids"]))
        if tried[-1] > rows:
            raise torch.OutOfMemoryError

    hook = model.register_forward_pre_hook(check, with_kwargs=True)
    try:
        yield tried
    finally:
        hook.remove()


def greedy_ids(lm: HuggingFaceLM, prompts: list[str]) -> list[list[int]]:
    rendered = [lm.engine.encoder.render(prompt) for prompt in prompts]
    return [answer.ids for [answer] in lm.engine.complete(rendered, lm.settings())]


@pytest.mark.slow
def test_running_out_of_memory_halves_the_batch_and_changes_no_answer(
    lm: HuggingFaceLM, model: Any, prompts: list[str]
) -> None:
    expected = lm.generate(prompts[:20])

    with memory_for(model, 5) as tried:
        found = lm.generate(prompts[:20])

    assert [row[0].text for row in found] == [row[0].text for row in expected]
    assert [size for size in tried if size > 5] == [16, 8]


def test_contrastive_decoding_and_scoring_halve_their_batches_too(
    lm: HuggingFaceLM, model: Any, prompts: list[str]
) -> None:
    expected = lm.generate_contrastive(prompts[:6], prompts[6:12])
    scores = lm.score_options(prompts[:6], ["a", "bc"])

    with memory_for(model, 4):
        assert lm.generate_contrastive(prompts[:6], prompts[6:12]) == expected
        np.testing.assert_allclose(lm.score_options(prompts[:6], ["a", "bc"]), scores, atol=1e-4)


def test_a_single_row_that_does_not_fit_is_a_typed_error(lm: HuggingFaceLM, model: Any) -> None:
    with memory_for(model, 0), pytest.raises(LanguageModelError, match="does not fit"):
        lm.generate(["too big"])


def test_a_stream_that_does_not_fit_is_a_typed_error(lm: HuggingFaceLM, model: Any) -> None:
    with memory_for(model, 0), pytest.raises(LanguageModelError, match="does not fit"):
        list(lm.stream("too big"))


def test_a_failing_forward_pass_is_a_typed_error(lm: HuggingFaceLM, model: Any) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("device-side assert")

    hook = model.register_forward_pre_hook(fail)
    try:
        with pytest.raises(LanguageModelError, match="forward pass failed on cpu: RuntimeError"):
            lm.generate(["fails"])
    finally:
        hook.remove()


def test_output_that_is_not_a_number_is_a_typed_error(make_model: Make, tokenizer: Any) -> None:
    model = make_model()
    with torch.no_grad():
        model.lm_head.weight[5] = float("nan")
    lm = HuggingFaceLM.from_objects(model, tokenizer)

    for temperature in (0.0, 1.0):
        with pytest.raises(LanguageModelError, match="not a number"):
            lm.generate(["nan"], temperature=temperature)


def learned_positions(_: Make) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=264, n_embd=32, n_layer=2, n_head=2, n_positions=64, initializer_range=0.3,
        bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model: Any = GPT2LMHeadModel(config)
        return model.eval()


def sliding_window(_: Make) -> Any:
    from transformers import MistralConfig, MistralForCausalLM

    config = MistralConfig(
        vocab_size=264, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
        sliding_window=8, initializer_range=0.3, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(4)
        model: Any = MistralForCausalLM(config)
        return model.eval()


@pytest.mark.slow
@pytest.mark.parametrize("build", [learned_positions, sliding_window])
def test_other_kinds_of_models_decode_alike_alone_batched_and_in_transformers(
    build: Make, make_model: Make, tokenizer: Any, prompts: list[str]
) -> None:
    model = build(make_model)
    lm = HuggingFaceLM.from_objects(model, tokenizer, max_new_tokens=10, stop=())
    some = [prompt[-(5 + n * 2) :] for n, prompt in enumerate(prompts[:20])]

    batched = greedy_ids(lm, some)

    for prompt, found in zip(some, batched, strict=True):
        ids = torch.tensor([tokenizer(prompt)["input_ids"]])
        made = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=10,
            pad_token_id=0,
        )  # fmt: skip
        assert found == made[0, ids.shape[1] :].tolist()


def test_a_model_that_counts_cache_slots_reads_prompts_with_one_beginning_as_if_alone(
    tokenizer: Any,
) -> None:
    from transformers import MptConfig, MptForCausalLM

    config = MptConfig(
        vocab_size=264, d_model=32, n_heads=4, n_layers=2, expansion_ratio=2, max_seq_len=128,
        initializer_range=0.3,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model: Any = MptForCausalLM(config)
        lm = HuggingFaceLM.from_objects(model.eval(), tokenizer, stop=())
    same_length = [f"{'beginning ' * 4}{n}" for n in range(3)]
    for asked in (same_length, [f"{text}{'?' * 5 * n}" for n, text in enumerate(same_length)]):
        together = lm.generate(asked, max_new_tokens=3)

        for prompt, [found] in zip(asked, together, strict=True):
            [[alone]] = lm.generate([prompt], max_new_tokens=3)
            assert found.text == alone.text
            assert found.token_logprobs == pytest.approx(alone.token_logprobs, abs=1e-4)


def test_a_row_at_the_end_of_the_window_does_not_stop_its_neighbours(
    make_model: Make, tokenizer: Any
) -> None:
    lm = HuggingFaceLM.from_objects(
        learned_positions(make_model), tokenizer, max_new_tokens=20, stop=()
    )

    together = greedy_ids(lm, ["x" * 61, "short", "other"])

    assert together == [greedy_ids(lm, [p])[0] for p in ("x" * 61, "short", "other")]
    assert len(together[0]) <= 3
    assert max(len(ids) for ids in together) > 3


def test_an_end_token_that_the_tokenizer_appends_is_taken_off(
    lm: HuggingFaceLM, model: Any, make_tokenizer: Make
) -> None:
    from tokenizers.processors import TemplateProcessing

    closing = make_tokenizer()
    closing.backend_tokenizer.post_processor = TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    other = HuggingFaceLM.from_objects(model, closing, max_new_tokens=12, stop=())

    assert closing("x")["input_ids"][-1] == 1
    assert other.generate(["x"]) == lm.generate(["x"])


def test_tokenizer_and_weights_that_do_not_belong_together_are_refused(
    model: Any, make_tokenizer: Make
) -> None:
    larger = make_tokenizer()
    larger.add_tokens(["§new§"])
    lm = HuggingFaceLM.from_objects(model, larger, max_new_tokens=3)

    assert lm.generate(["plain"])
    with pytest.raises(LanguageModelError, match="are of different models"):
        lm.generate(["a §new§ one"])


def test_a_chat_template_wraps_prompts_unless_switched_off(
    lm: HuggingFaceLM, model: Any, make_tokenizer: Make
) -> None:
    chatty = make_tokenizer()
    chatty.chat_template = TEMPLATE
    options: dict[str, Any] = {"max_new_tokens": 12, "stop": ()}
    auto = HuggingFaceLM.from_objects(model, chatty, **options)
    off = HuggingFaceLM.from_objects(model, chatty, chat_template=False, **options)

    assert auto.generate(["hi"]) == lm.generate(["[user] hi\n[assistant] "])
    assert off.generate(["hi"]) == lm.generate(["hi"])
    assert auto.fingerprint != off.fingerprint


def test_option_scores_equal_a_teacher_forced_pass(
    lm: HuggingFaceLM, model: Any, tokenizer: Any, prompts: list[str]
) -> None:
    options = ["a", " (B)", " the long option", "ing"]

    scores = lm.score_options(prompts[:20], options)

    assert scores.shape == (20, 4)
    for row, prompt in zip(scores, prompts, strict=False):
        for score, option in zip(row, options, strict=True):
            start, tail = (tokenizer(text)["input_ids"] for text in (prompt, option))
            with torch.no_grad():
                logits = model(torch.tensor([start + tail])).logits[0].double().log_softmax(-1)
            expected = sum(
                float(logits[len(start) - 1 + at, token]) for at, token in enumerate(tail)
            )
            assert score == pytest.approx(expected, abs=1e-4)


def test_an_option_that_merges_with_the_prompt_is_scored_after_the_prompt(
    lm: HuggingFaceLM,
) -> None:
    # "t" + "he" would be one token; the prompt stays as it is.
    [[merging, plain]] = lm.score_options(["t"], ["he", "xe"])

    assert np.isfinite([merging, plain]).all()
