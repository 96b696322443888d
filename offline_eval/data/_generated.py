"""What to say of questions that programs made."""

from __future__ import annotations

from collections.abc import Mapping

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
