"""What the embedded model knows, stored without asking it."""

from __future__ import annotations

from pathlib import Path

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.offline_eval.suites.uniknow._cases import Knowledge, KnowledgeEstimate
from knowgate.offline_eval.suites.uniknow._knowledge import (
    KnowledgeStore,
    Sampling,
)
from knowgate.offline_eval.suites.uniknow._questions import read_dataset
from knowgate.offline_eval.testbed.check import microworld_model_path


def write_known_half(questions: Path, path: Path) -> Path:
    """Store that every other question is known, the first among them."""
    dataset = read_dataset(questions)
    lm = HuggingFaceLM(microworld_model_path(), device="cpu", max_new_tokens=24)
    store = KnowledgeStore(path)
    key = store.key_for(lm.fingerprint, dataset.prompts.closed_book, Sampling())
    sides = (Knowledge.KNOWN, Knowledge.UNKNOWN)
    store.add(
        key,
        [
            (question, KnowledgeEstimate(sides[n % 2], 7 * (1 - n % 2), 10))
            for n, question in enumerate(dataset.questions)
        ],
    )
    return path
