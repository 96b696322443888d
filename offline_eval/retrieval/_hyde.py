"""HyDE: search with invented answers instead of the question."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ...guard import InputError, LanguageModelError
from ...guard.prompts import Prompt, bundled_prompt
from ..ookb import Case
from ..replies import ReplyContext
from ._asking import TextModel, ask, prompt_of_package, require_model, tagged, total
from ._basic_rag import require_top_k
from ._contract import Retrieved
from ._index import PassageIndex

_SLOTS = frozenset({"question", "number"})
_TAG = re.compile(r"</?passage>", re.IGNORECASE)


class HyDE:
    """Top-k passages by cosine with the mean of some hypothetical answers.

    One call asks for all of them, so that they differ at any temperature. A model that
    keeps to no form has its whole reply taken for one answer; one that says nothing to such
    a prompt, as small models may, is asked the plain question once. Answers are embedded,
    averaged and brought to unit length.

    Args:
        index: of the knowledge base.
        lm: writes the answers; it is told the question alone.
        top_k: passages per context, at least 1.
        answers: hypothetical answers, at least 1.
        prompt: with the slots `question` and `number`; the bundled one otherwise.

    Raises:
        InputError: there is no language model, or an argument is out of range.

    Source: Gao et al. 2023, Precise Zero-Shot Dense Retrieval without Relevance Labels;
    three answers as in KnowOrNot.
    """

    name = "hyde"

    def __init__(
        self,
        index: PassageIndex,
        lm: TextModel | None,
        *,
        top_k: int = 5,
        answers: int = 3,
        prompt: Prompt | None = None,
    ) -> None:
        self._lm = require_model(lm, where="hyde", why="HyDE")
        self._index, self._top_k = index, require_top_k(top_k)
        if answers < 1:
            raise InputError(f"must be at least 1, not {answers}", where="answers")
        self._answers = answers
        self.prompt = prompt_of_package("hypothetical_answers") if prompt is None else prompt
        if "question" not in self.prompt.slots or not self.prompt.slots <= _SLOTS:
            raise InputError(
                "the prompt needs the slot {question} and may have {number}, and no other",
                where=self.prompt.name,
            )
        self._plain = bundled_prompt("closed_book")
        self._thread = ThreadPoolExecutor(1, "knowgate-retrieval")

    async def aretrieve(self, case: Case) -> Retrieved:
        """The passages nearest to the hypothetical answers.

        Raises:
            LanguageModelError: the model said nothing.
        """
        saids = [await ask(self._lm, self.prompt.fill(**self._slots(case)))]
        answers = _answers_in(saids[0].text)
        if not answers:
            saids.append(await ask(self._lm, self._plain.fill(question=case.question)))
            answers = _answers_in(saids[1].text)
        if not answers:
            raise LanguageModelError("the model wrote no hypothetical answer")
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            self._thread, self._found, case, answers[: self._answers]
        )
        return Retrieved(
            ReplyContext(kind="passages", passages=tuple(found)),
            calls=len(saids),
            input_tokens=total([said.input_tokens for said in saids]),
            output_tokens=total([said.output_tokens for said in saids]),
        )

    def _slots(self, case: Case) -> dict[str, str]:
        return {"question": case.question, "number": str(self._answers)}

    def _found(self, case: Case, answers: list[str]) -> list[str]:
        mean = self._index.encoder.embed(answers).mean(axis=0)
        length = float(np.linalg.norm(mean))
        # Answers that cancel each other out point nowhere; the first one still does.
        vector = mean / length if length > 1e-6 else self._index.encoder.embed(answers[:1])[0]
        return self._index.nearest_for(case, vector.astype(np.float32), self._top_k)


def _answers_in(text: str) -> list[str]:
    """The answers between tags; without any the whole reply, if it says something."""
    whole = _TAG.sub(" ", text).strip()
    return tagged(text, "passage") or ([whole] if whole else [])
