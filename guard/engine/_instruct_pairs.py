"""Pairs as instruct rerankers read them: language models that were trained on one template.

Such a model is right only with the template of its training, so the templates of two families
are data of the package (`reranker_templates.json`): `qwen3` for Qwen3-Reranker, `qwen2` for
mxbai-rerank-v2. The template's marks are special tokens; in a question or a passage the same
characters are plain text, so that no passage can end its turn and give the answer itself.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ModelFolderError
from ._tokenizing import PairRow, piece_ids, shortened

# The most that such a model is given: memory grows with it, and the makers give no more.
MOST_PIECES = 8192
_SLOT = re.compile(r"\{(question|passage)\}")
_PASSAGE = "{passage}"


@dataclass(frozen=True, slots=True)
class RerankerTemplate:
    """The text around a pair, and the words that a model answers with.

    Attributes:
        parts: tokenised one by one, as the makers do; those with `{question}` or `{passage}`
            hold text of others.
        yes: the word for a relevant passage, one token.
        no: the word for any other, one token.
    """

    parts: tuple[str, ...]
    yes: str
    no: str

    @classmethod
    def of(cls, family: str, folder: Path) -> RerankerTemplate:
        """The template of a model family, by the `model_type` of its configuration.

        Raises:
            ModelFolderError: none is known.
        """
        known = known_templates()
        if family not in known:
            raise ModelFolderError(
                f"a language model of the type {family!r}, which has no known template",
                where=str(folder),
                hint=f"instruct rerankers are known of the types {', '.join(sorted(known))}",
            )
        found = known[family]
        return cls(tuple(found["parts"]), found["yes"], found["no"])

    @property
    def sha256(self) -> str:
        """Hexadecimal sha256 of the template."""
        text = json.dumps([self.parts, self.yes, self.no])
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def answers(self, tokenizer: Any, folder: Path) -> tuple[int, int]:
        """The ids of the words for yes and no.

        Raises:
            ModelFolderError: one of them is not one token.
        """
        yes, no = map(tokenizer.backend_tokenizer.token_to_id, (self.yes, self.no))
        if yes is None or no is None:
            raise ModelFolderError(
                f"its tokenizer has no tokens {self.yes!r} and {self.no!r}",
                where=str(folder),
                hint="name an instruct reranker",
            )
        return yes, no


@lru_cache(maxsize=1)
def known_templates() -> dict[str, Any]:
    """The templates by model family."""
    text = resources.files(__package__).joinpath("reranker_templates.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


class InstructPairs:
    """Fills a template with pairs.

    What is too long is cut from the passage, then from the question at three quarters of the
    length.

    Args:
        tokenizer: of `free_tokenizer`; from here on it takes special tokens for plain text.
        template: of the model.
        max_length: tokens of the whole, template included.

    Raises:
        ModelFolderError: the length leaves no room for a pair.
    """

    def __init__(self, tokenizer: Any, template: RerankerTemplate, max_length: int) -> None:
        self._template, self._max_length = template, max_length
        self._fixed = {
            part: piece_ids(tokenizer, part) for part in template.parts if not _SLOT.search(part)
        }
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        taken = sum(len(self._fixed.get(part, ())) for part in template.parts)
        self._room = max_length - taken
        if self._room < 4 * len(template.parts):
            raise ModelFolderError(f"a length of {max_length} leaves no room for a pair")

    def rows(self, pairs: Sequence[tuple[str, str]]) -> list[PairRow]:
        """The row of each pair."""
        return [self._row(question, passage) for question, passage in pairs]

    def _row(self, question: str, passage: str) -> PairRow:
        values = {"question": self._cut(question), "passage": self._cut(passage)}
        parts = [
            self._fixed.get(part) or piece_ids(self._tokenizer, _filled(part, values))
            for part in self._template.parts
        ]
        left = self._room
        for place, part in enumerate(self._template.parts):
            if part not in self._fixed:
                most = left if _PASSAGE in part else self._room * 3 // 4
                parts[place] = parts[place][:most]
                left -= len(parts[place])
        ids = np.array([piece for part in parts for piece in part], dtype=np.int32)
        return PairRow(ids, np.zeros_like(ids))

    def _cut(self, text: str) -> str:
        return shortened(text, self._max_length)


def _filled(part: str, values: dict[str, str]) -> str:
    # In one pass: a question that looks like a slot is not filled.
    return _SLOT.sub(lambda slot: values[slot[1]], part)
