"""A language model that proposes wrong answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ...guard import LanguageModel, LanguageModelError, PartialGenerationsError, clean_text
from ._alternatives import StatedAnswer, is_another
from ._answer_kinds import NUMBER, NUMERIC_KINDS, AnswerKind, answer_shape
from ._datasets import prompt_text
from ._nearest import Progress
from ._replacement import Alternative

_BATCH = 16
_SAMPLES = 3
_LABEL = re.compile(r"^\s*(?:wrong answer|answer|alternative)\s*[:：]\s*", re.IGNORECASE)
_NAMES = (AnswerKind.PERSON, AnswerKind.PLACE, AnswerKind.ORGANISATION, AnswerKind.NAME)
Check = Callable[[StatedAnswer, Alternative], bool]


def edited_alternatives(
    editor: LanguageModel,
    stated: Sequence[StatedAnswer],
    accept: Check,
    *,
    seed: int,
    on_progress: Progress | None = None,
) -> dict[str, Alternative | str]:
    """The editor's wrong answer for each right one, or why there is none.

    Each is asked for greedily first; where that reply does not pass, three are sampled.

    Args:
        editor: any language model that follows instructions.
        stated: the right answers in their contexts.
        accept: whether an alternative serves in its context.
        seed: of the samples.
        on_progress: called with the answers asked for so far and their number.

    Returns:
        Question id → alternative, or the reason in words of this package.
    """
    found: dict[str, Alternative | str] = {}
    for temperature, n in ((0.0, 1), (1.0, _SAMPLES)):
        open_ = [one for one in stated if not isinstance(found.get(one.question.id), Alternative)]
        for start in range(0, len(open_), _BATCH):
            batch = open_[start : start + _BATCH]
            replies = _ask(editor, batch, n, temperature, seed)
            for one, reply in zip(batch, replies, strict=True):
                found[one.question.id] = (
                    reply if isinstance(reply, str) else _first_accepted(one, reply, accept)
                )
            if on_progress is not None and n == 1:
                on_progress(start + len(batch), len(open_))
    return found


def _ask(
    editor: LanguageModel, batch: Sequence[StatedAnswer], n: int, temperature: float, seed: int
) -> list[list[str] | str]:
    """The replies for each, or the name of the error where none arrived."""
    template = prompt_text("conflicting_answer")
    prompts = [
        template.format(context=one.window, question=one.question.question, answer=one.text)
        for one in batch
    ]
    try:
        rows = editor.generate(prompts, n=n, temperature=temperature, seed=seed)
        return [[generation.text for generation in row] for row in rows]
    except PartialGenerationsError as error:
        return [
            [generation.text for generation in row] or f"the editor failed ({type(why).__name__})"
            for row, why in zip(error.generations, error.errors, strict=True)
        ]
    except LanguageModelError as error:
        return [f"the editor failed ({type(error).__name__})"] * len(batch)


def _first_accepted(
    stated: StatedAnswer, replies: Sequence[str], accept: Check
) -> Alternative | str:
    for reply in replies:
        alternative = alternative_from_reply(stated, reply)
        if alternative is not None and accept(stated, alternative):
            return alternative
    return "no reply of the editor can take the answer's place"


def alternative_from_reply(stated: StatedAnswer, reply: str) -> Alternative | None:
    """What an editor's reply proposes; None where it is no other answer of the same kind."""
    lines = [line.strip() for line in clean_text(reply).splitlines() if line.strip()]
    text = _LABEL.sub("", lines[0]).strip().strip("\"'“”‘’") if lines else ""
    if text.endswith(".") and not stated.text.endswith("."):
        text = text[:-1]
    if not text or len(text.split()) > len(stated.text.split()) + 3:
        return None
    kind = answer_shape(stated.question.question, text).kind
    same = kind is stated.shape.kind or (kind in _NAMES and stated.shape.kind in _NAMES)
    if not same or not is_another(stated, text):
        return None
    number = None
    if kind in NUMERIC_KINDS:
        new = NUMBER.findall(text)
        # With the same words around the number every spelling of the answer can take it.
        if len(new) == 1 and NUMBER.sub("#", text) == NUMBER.sub("#", stated.text):
            number = new[0]
    return Alternative(text, (text,), number)
