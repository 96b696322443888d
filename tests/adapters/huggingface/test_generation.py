"""Greedy and sampled answers, their log-probabilities, stopping and streaming."""

from __future__ import annotations

import asyncio
import random
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.guard import Generation
from knowgate.guard.errors import InputError, PromptTooLongError


def texts(rows: list[list[Generation]]) -> list[list[str]]:
    return [[answer.text for answer in row] for row in rows]


def peer_ids(model: Any, tokenizer: Any, prompts: list[str], count: int) -> list[list[int]]:
    """What `model.generate` answers each prompt greedily, without prompt and padding.

    Prompts of one length are answered together, so that none of them needs padding.
    """
    rows = [tokenizer(prompt)["input_ids"] for prompt in prompts]
    found: list[list[int]] = [[] for _ in rows]
    for length in sorted({len(row) for row in rows}):
        places = [place for place, row in enumerate(rows) if len(row) == length]
        ids = torch.tensor([rows[place] for place in places])
        made = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=count,
            pad_token_id=0,
        )
        for place, answer in zip(places, made[:, length:].tolist(), strict=True):
            end = answer.index(1) + 1 if 1 in answer else count
            found[place] = answer[:end]
    return found


@pytest.mark.slow
def test_greedy_equals_transformers_generate(
    lm: HuggingFaceLM, model: Any, tokenizer: Any, prompts: list[str]
) -> None:
    some = prompts[:70]
    answers = lm.engine.complete([lm.engine.encoder.render(p) for p in some], lm.settings())

    assert [answer.ids for [answer] in answers] == peer_ids(model, tokenizer, some, 12)
    assert any(answer.ended_by_token for [answer] in answers), "no prompt met the end token"


def test_log_probabilities_equal_those_of_a_teacher_forced_pass(
    lm: HuggingFaceLM, model: Any, tokenizer: Any, prompts: list[str]
) -> None:
    rendered = [lm.engine.encoder.render(prompt) for prompt in prompts[:6]]
    rows = lm.engine.complete(rendered, lm.settings(n=3, temperature=0.8, seed=5))

    for prompt, row in zip(prompts, rows, strict=False):
        for answer in row:
            start = tokenizer(prompt)["input_ids"]
            with torch.no_grad():
                logits = model(torch.tensor([start + answer.ids])).logits[0].double()
            expected = logits.log_softmax(-1)[len(start) - 1 : -1]
            expected = expected.gather(-1, torch.tensor(answer.ids)[:, None])[:, 0]
            np.testing.assert_allclose(answer.logprobs, expected.numpy(), atol=2e-5)


def test_samples_depend_on_seed_and_prompt_only(lm: HuggingFaceLM, prompts: list[str]) -> None:
    together = texts(lm.generate(prompts[:5], n=4, temperature=1.0, seed=3))

    apart = [texts(lm.generate([p], n=4, temperature=1.0, seed=3))[0] for p in prompts[:5]]
    other = texts(lm.generate(prompts[:5], n=4, temperature=1.0, seed=4))

    assert together == apart
    assert together != other
    assert all(len(set(row)) > 1 for row in together)


def test_samples_drawn_in_waves_are_those_of_one_call(lm: HuggingFaceLM) -> None:
    [whole] = texts(lm.generate(["waves"], n=6, temperature=1.0, seed=3))

    [first] = texts(lm.generate(["waves"], n=4, temperature=1.0, seed=3))
    [rest] = texts(lm.generate(["waves"], n=2, temperature=1.0, seed=3 + 4))

    assert first + rest == whole


def test_samples_follow_the_models_distribution(
    lm: HuggingFaceLM, model: Any, tokenizer: Any
) -> None:
    prompt, temperature, draws = "distribution", 0.7, 1500
    rendered = [lm.engine.encoder.render(prompt)]
    settings_ = lm.settings(n=draws, temperature=temperature, seed=11, max_new_tokens=1)
    [answers] = lm.engine.complete(rendered, settings_)
    counts = np.bincount([answer.ids[0] for answer in answers], minlength=264)

    with torch.no_grad():
        logits = model(torch.tensor([tokenizer(prompt)["input_ids"]])).logits[0, -1]
    expected = (logits / temperature).softmax(-1).numpy()

    # Five standard errors on every token.
    error = np.sqrt(expected * (1 - expected) / draws)
    assert np.all(np.abs(counts / draws - expected) < 5 * error + 2 / draws)


def test_global_random_state_stays_untouched(lm: HuggingFaceLM) -> None:
    before = (
        torch.get_rng_state(),
        np.random.get_state(legacy=False)["state"]["key"].copy(),
        random.getstate(),
    )

    lm.generate(["state"], n=3, temperature=1.0)

    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state(legacy=False)["state"]["key"], before[1])
    assert random.getstate() == before[2]


def test_a_prompt_is_prefilled_once_for_all_its_samples(lm: HuggingFaceLM, model: Any) -> None:
    shapes: list[tuple[int, ...]] = []
    hook = model.register_forward_pre_hook(
        lambda _, __, arguments: shapes.append(tuple(arguments["input_ids"].shape)),
        with_kwargs=True,
    )

    lm.generate(["prefill me"], n=7, temperature=1.0, seed=0)
    hook.remove()

    assert shapes[0] == (1, len("prefill me") - 1)
    assert shapes[1] == (7, 1)


def test_a_long_common_beginning_is_read_once_and_changes_no_answer(
    lm: HuggingFaceLM, model: Any
) -> None:
    beginning = "Answer the question below in one or two words, please.\n"
    asked = [f"{beginning}{'Question: ' * (n % 3)}{n * 37 % 101}?" for n in range(12)]
    read: list[int] = []
    handle = model.register_forward_pre_hook(
        lambda _module, _args, given: read.append(given["input_ids"].numel()), with_kwargs=True
    )
    try:
        together = lm.generate(asked, max_new_tokens=6)
    finally:
        handle.remove()
    alone = [lm.generate([prompt], max_new_tokens=6)[0] for prompt in asked]

    assert [row[0].text for row in together] == [row[0].text for row in alone]
    for row, one in zip(together, alone, strict=True):
        assert row[0].token_logprobs == pytest.approx(one[0].token_logprobs, abs=1e-4)
    assert read[0] <= len(beginning) + 1
    assert sum(read[:2]) < len(beginning) * len(asked)


def test_a_stop_string_ends_the_answer_and_is_left_out(
    lm: HuggingFaceLM, prompts: list[str]
) -> None:
    free = [row[0].text for row in lm.generate(prompts[:20])]
    letter = max(set("".join(free)) - {"\ufffd"}, key="".join(free).count)

    stopped = lm.generate(prompts[:20], stop=[letter])

    assert [row[0].text for row in stopped] == [text.split(letter)[0] for text in free]
    assert any(letter in text for text in free)


@pytest.mark.slow
def test_streamed_pieces_join_to_the_generated_text(lm: HuggingFaceLM, prompts: list[str]) -> None:
    for prompt in prompts[:3]:
        for options in ({}, {"stop": ["H", "\n"]}, {"temperature": 1.0, "seed": 2}):
            [[whole]] = lm.generate([prompt], **options)
            assert "".join(lm.stream(prompt, **options)) == whole.text
    with pytest.raises(InputError, match="a stream has one answer"):
        lm.stream(prompts[0], n=2)
    misspelt: dict[str, Any] = {"temprature": 1.0}
    with pytest.raises(InputError, match="temprature"):
        lm.generate(prompts, **misspelt)


def test_a_stream_never_shows_the_beginning_of_a_stop_string(
    lm: HuggingFaceLM, prompts: list[str]
) -> None:
    free = [row[0].text for row in lm.generate(prompts[:30])]
    number, stop = next(
        (at, match.group())
        for at, text in enumerate(free)
        if (match := re.search(r"(?<!^)[ -~]{2}", text))
    )

    shown = "".join(lm.stream(prompts[number], stop=[stop]))

    assert shown == free[number].split(stop)[0]


def test_streaming_gives_the_first_piece_before_the_last_token(
    lm: HuggingFaceLM, model: Any, prompts: list[str]
) -> None:
    passes: list[int] = []
    hook = model.register_forward_pre_hook(lambda *_: passes.append(1))

    first = next(lm.stream(prompts[2]))
    hook.remove()

    assert first
    assert len(passes) < 12


def test_answers_end_where_the_context_window_does(lm: HuggingFaceLM) -> None:
    [[answer]] = lm.generate(["x" * 252])

    assert answer.token_logprobs is not None
    assert len(answer.token_logprobs) <= 4


def test_a_huge_prompt_is_refused_without_tokenizing_it(lm: HuggingFaceLM) -> None:
    with pytest.raises(PromptTooLongError, match="10000000 characters"):
        lm.generate(["x" * 10_000_000])


@pytest.mark.parametrize("prompt", ["", "\0", "\0text\0", " ", "\U0001f600", "a\r\nb"])
def test_odd_prompts_are_answered(lm: HuggingFaceLM, prompt: str) -> None:
    [[answer]] = lm.generate([prompt])

    assert answer.token_logprobs


@pytest.mark.slow
def test_threads_get_the_answers_that_one_thread_gets(
    lm: HuggingFaceLM, prompts: list[str]
) -> None:
    expected = [lm.generate([p], n=2, temperature=1.0, seed=1) for p in prompts[:8]]

    with ThreadPoolExecutor(8) as pool:
        found = list(
            pool.map(lambda p: lm.generate([p], n=2, temperature=1.0, seed=1), prompts[:8])
        )

    assert [texts(rows) for rows in found] == [texts(rows) for rows in expected]


async def test_agenerate_answers_as_generate_does(lm: HuggingFaceLM) -> None:
    found = await lm.agenerate(["async"], n=2, temperature=1.0, seed=1)

    assert found == lm.generate(["async"], n=2, temperature=1.0, seed=1)


async def test_cancelling_agenerate_ends_the_decoding(lm: HuggingFaceLM, model: Any) -> None:
    started, go, passes = threading.Event(), threading.Event(), []

    def hold(*_: Any) -> None:
        passes.append(1)
        started.set()
        go.wait(10)

    hook = model.register_forward_pre_hook(hold)
    task = asyncio.create_task(lm.agenerate(["cancel"], max_new_tokens=100))
    await asyncio.to_thread(started.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    # A later call waits its turn, so the cancelled one has stopped when it returns.
    await lm.agenerate(["after"], max_new_tokens=1)
    hook.remove()

    assert len(passes) < 10


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(prompt=st.text(max_size=40), count=st.integers(1, 3), seed=st.integers(0, 2**70))
def test_any_text_and_seed_give_n_answers_without_stop_strings(
    lm: HuggingFaceLM, prompt: str, count: int, seed: int
) -> None:
    [row] = lm.generate([prompt], n=count, temperature=1.0, seed=seed, stop=["\n", "e"])

    assert len(row) == count
    assert all("\n" not in answer.text and "e" not in answer.text for answer in row)
    assert all(answer.token_logprobs and max(answer.token_logprobs) <= 1e-6 for answer in row)
