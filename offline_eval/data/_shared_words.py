"""What to say of questions that programs made: how much of their wording is the passage's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

# Words that say little about what a question is about.
_ASIDE_TEXT = """
    a about am an and any are as at be been but by can could did do does for from get had has have
    he her his how i if in into is it its may me might more most must my no not of on one or our
    out s shall she should so some t than that the their them then there these they this those to
    up us was way we were what when where which who whom whose why will with would you your
"""
_ASIDE = frozenset(_ASIDE_TEXT.split())
# Mean over 225 questions on four documentations, written by hand as users put them, and the
# chunk of 150 words that answers each (`benchmarks/generated_questions.py`).
SHARED_BY_PEOPLE = 0.39
# Chinese and Japanese are written without spaces: each character is a word.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+")
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|es|s|e)$")


def shared_words(question: str, passage: str) -> float | None:
    """Share of a question's content words that its passage holds, whatever their endings.

    Questions of people share less than questions that were made from the passage, and less is
    harder: a scorer then has to tell that other words mean the same.

    Returns:
        From 0 to 1; None for a question of function words alone.

    Example:
        >>> shared_words("How long can I try it for free?", "Trials end after 21 days.")
        0.0
        >>> shared_words("How many days does a trial last?", "Trials end after 21 days.")
        0.5
    """
    asked, told = content_words(question), content_words(passage)
    return len(asked & told) / len(asked) if asked else None


def mean_shared_words(pairs: Iterable[tuple[str, str]]) -> float | None:
    """Mean of `shared_words` over questions with their passages; None without any."""
    found = [share for pair in pairs if (share := shared_words(*pair)) is not None]
    return sum(found) / len(found) if found else None


def content_words(text: str) -> set[str]:
    """Words that say what a text is about, without their endings."""
    words = _WORD.findall(text.casefold())
    return {_ENDING.sub("", word) for word in words if word not in _ASIDE}


# False abstention of policies from questions by rules, on three documentations: what they claimed,
# and what they did to questions as users put them (`benchmarks/generated_questions.py`).
_MEASURED = (
    ": on three documentations such policies claimed to abstain from 17 to 32 % of what they could "
    "answer, and abstained from 75 to 91 % of what users asked"
)


def note_on_makers(makers: Mapping[str, int], questions: int) -> str:
    """Say which share of the questions programs made, and what that means; empty for none.

    Args:
        makers: by `QuestionRecord.made_by`, how many questions; people's are left out.
        questions: in all.

    Example:
        >>> note_on_makers({"rules": 3}, 30)[:47]
        'Rules made 10 % of the questions behind this; p'
    """
    count = sum(makers.values())
    if not count:
        return ""
    kinds = sorted({name.partition(":")[0] for name in makers}, reverse=True)
    who = " and ".join("a model" if kind == "model" else kind for kind in kinds)
    share = "all" if count >= questions else f"{min(99, round(100 * count / questions))} %"
    text = f"{who} made {share} of the questions behind this; people's are usually harder"
    if "rules" in kinds:
        text += _MEASURED
    return f"{text[0].upper()}{text[1:]}. A smoke test, no promise about people's questions."
