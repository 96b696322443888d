"""The loss on reply tokens and the preference loss, by hand and by peers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from knowgate.calibration.training.scenarios import (
    encode_reply,
    learning_rate_share,
    preference_loss,
    reply_logprobs,
    shuffled_batches,
)
from knowgate.guard.engine.causal_model import end_ids
from knowgate.guard.engine.prompt_encoder import PromptEncoder
from tests.adapters.huggingface.conftest import build_model, build_tokenizer


def test_the_preference_loss_by_hand() -> None:
    # Policy: -1 − -3 = 2; base: -2 − -1.5 = -0.5; margin 2.5; β 0.1 → -log σ(0.25).
    chosen, rejected, base_chosen, base_rejected = torch.tensor([[-1.0], [-3.0], [-2.0], [-1.5]])

    loss = preference_loss(chosen, rejected, base_chosen, base_rejected, beta=0.1)

    assert loss.item() == pytest.approx(math.log(1 + math.exp(-0.25)), rel=1e-6)
    assert loss.item() == pytest.approx(0.575939, abs=1e-6)


def test_the_preference_loss_equals_trls() -> None:
    # What the lines of trl 1.16.0 (DPOTrainer, loss "sigmoid", reverse KL, β 0.1) give.
    values = [
        [-9.9251, -15.3644, -1.7695, -2.6406],
        [-6.1485, -12.6816, -9.8019, -17.9289],
        [-9.1126, -12.6461, -6.9779, -8.0343],
        [-0.4465, -3.3772, -5.8778, -10.3704],
    ]
    chosen, rejected, base_chosen, base_rejected = torch.tensor(values, dtype=torch.float64)

    loss = preference_loss(chosen, rejected, base_chosen, base_rejected, beta=0.1)

    assert loss.tolist() == pytest.approx(
        [0.4782631687236271, 0.41711054099003836, 0.337341961040882, 0.242034087039452]
    )


def test_the_loss_counts_reply_tokens_only_however_rows_are_padded() -> None:
    model = build_model()
    rows = [((0, 40, 41, 42, 43, 1), 2), ((0, 50, 51, 1), 3)]

    with torch.no_grad():
        together = reply_logprobs(model, rows)
        for number, (tokens, size) in enumerate(rows):
            ids = torch.tensor([tokens])
            logits = model(input_ids=ids).logits[0].log_softmax(-1)
            by_hand = [
                logits[at - 1, tokens[at]].item() for at in range(len(tokens) - size, len(tokens))
            ]
            # Padding stands in front, in the reply as in the row.
            assert together[number].tolist()[-size:] == pytest.approx(by_hand, abs=1e-4)
            assert together[number].tolist()[:-size] == [0.0] * (3 - size)


def _encoded(tokenizer: Any, ends: Any, prompt: str, reply: str) -> Any:
    return encode_reply(PromptEncoder(tokenizer), tokenizer, ends, prompt, reply)


def test_a_reply_follows_after_a_space_and_ends_with_the_end_token(tokenizer: Any) -> None:
    ids, size = _encoded(tokenizer, [1], "Q: Who?\nA:", "Ada")

    assert tokenizer.decode(list(ids)) == "Q: Who?\nA: Ada</s>"
    assert tokenizer.decode(list(ids[-size:])) == " Ada</s>"


def test_a_merge_across_the_seam_leaves_the_prompt_as_it_is_asked_later(tokenizer: Any) -> None:
    # The tokenizer would make one token of the full stop and a newline after it.
    alone = tokenizer("Say.")["input_ids"]

    ids, size = _encoded(tokenizer, [1], "Say.", "the")

    assert list(ids[: len(alone)]) == alone
    assert tokenizer.decode(list(ids[-size:])) == " the</s>"


def test_a_chat_template_wraps_prompt_and_reply_up_to_the_end_of_the_turn() -> None:
    tokenizer = build_tokenizer()
    tokenizer.chat_template = (
        "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}</s>\n{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )

    ids, size = _encoded(tokenizer, [1], "Who?", "Ada")

    assert tokenizer.decode(list(ids)) == "[user]Who?</s>\n[assistant]Ada</s>"
    assert tokenizer.decode(list(ids[-size:])) == "Ada</s>"


def test_every_example_is_in_one_batch_and_the_seed_decides_which() -> None:
    lengths = [n * 7 % 31 for n in range(53)]

    batches = shuffled_batches(lengths, 4, "a")

    assert sorted(at for batch in batches for at in batch) == list(range(53))
    assert len(batches) == 14
    assert batches == shuffled_batches(lengths, 4, "a")
    assert batches != shuffled_batches(lengths, 4, "b")


def test_the_rate_rises_to_its_peak_and_falls_to_nothing() -> None:
    shares = [learning_rate_share(step, 100, 0.1) for step in range(100)]

    assert shares.index(max(shares)) == 10
    assert max(shares) == 1.0
    assert 0 < shares[-1] < 0.02
    assert all(0 < share <= 1 for share in shares)


def test_an_answer_ends_as_the_generation_settings_say_before_the_tokenizer(tokenizer: Any) -> None:
    model = build_model()
    model.generation_config.eos_token_id = [7, 1]
    assert end_ids(model, tokenizer) == (1, 7)

    model.generation_config.eos_token_id = 261
    assert end_ids(model, tokenizer)[0] == 261
    ids, _ = _encoded(tokenizer, end_ids(model, tokenizer), "Q:", "Ada")
    assert ids[-1] == 261
