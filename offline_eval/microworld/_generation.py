"""Batched answers from a causal LM on disk, with nothing but transformers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...guard._quiet_loading import quiet_loading

_BATCH_TOKENS = 16_384
_ANSWER_TOKENS = 16


class Answerer:
    """Answers prompts in batches; the answer ends at the first newline.

    Args:
        path: model folder that `from_pretrained` can read; nothing custom is run.
        device: `cpu` or `cuda`.
    """

    def __init__(self, path: Path, *, device: str = "cpu") -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self._tokenizer: Any = AutoTokenizer.from_pretrained(str(path), local_files_only=True)
        with quiet_loading():
            model: Any = AutoModelForCausalLM.from_pretrained(str(path), local_files_only=True)
        self._model = model.eval().to(device)
        self._device = device

    def greedy(self, prompts: Sequence[str]) -> list[str]:
        """One answer to each prompt, the most probable token at every step."""
        return [answers[0] for answers in self._answer(prompts, 1, {"do_sample": False})]

    def sample(
        self, prompts: Sequence[str], *, n: int, seed: int, temperature: float = 1.0
    ) -> list[list[str]]:
        """`n` answers to each prompt, drawn at a temperature above 0 from all tokens."""
        import torch

        settings = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self._answer(prompts, n, settings)

    def _answer(self, prompts: Sequence[str], n: int, settings: dict[str, Any]) -> list[list[str]]:
        import torch

        if not prompts:
            return []
        lengths = [len(ids) for ids in self._tokenizer(list(prompts))["input_ids"]]
        order = sorted(range(len(prompts)), key=lengths.__getitem__)
        answers: list[list[str]] = [[] for _ in prompts]
        while order:
            # Longest first: a prompt too long for the memory fails at once.
            size = max(1, _BATCH_TOKENS // (n * lengths[order[-1]]))
            taken, order = order[-size:], order[:-size]
            batch = self._tokenizer(
                [prompts[i] for i in taken], return_tensors="pt", padding=True, padding_side="left"
            ).to(self._device)
            with torch.inference_mode():
                output = self._model.generate(
                    input_ids=batch["input_ids"],
                    attention_mask=batch["attention_mask"],
                    max_new_tokens=_ANSWER_TOKENS,
                    num_return_sequences=n,
                    **settings,
                )
            texts = self._tokenizer.batch_decode(
                output[:, batch["input_ids"].shape[1] :], skip_special_tokens=True
            )
            for place, i in enumerate(taken):
                for text in texts[place * n : (place + 1) * n]:
                    answers[i].append(text.split("\n", 1)[0].strip())
        return answers
