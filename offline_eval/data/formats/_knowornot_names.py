"""Translate names between KnowOrNot and runs of replies."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...run import CaseKind

# Names of retrievals here, by KnowOrNot's.
RETRIEVALS = {
    "BASIC_RAG": "basic_rag",
    "DIRECT": "direct",
    "HYDE_RAG": "hyde",
    "LONG_IN_CONTEXT": "long_context",
}
KINDS = {"removal": CaseKind.LEFT_OUT, "synthetic": CaseKind.SYNTHETIC}

# The tag under which a judge's words before its verdict are written.
REASONING = "reasoning"

_GUARDED = re.compile(r"(?P<model>.+?) \[guard (?P<guard>.+)\]", re.DOTALL)
_OUR_JUDGE = "knowgate judge "


def guarded_model(model: str, guard: str) -> str:
    """A model's name, with the guard in front of it, for a format that knows no guard."""
    return model if guard == "off" else f"{model} [guard {guard}]"


def model_and_guard(name: str) -> tuple[str, str]:
    """The inverse of `guarded_model`."""
    found = _GUARDED.fullmatch(name)
    return (found["model"], found["guard"]) if found else (name, "off")


def evaluator_of(judge: str) -> str:
    """A judge of ours as name of an evaluator."""
    return _OUR_JUDGE + judge


def judge_of(evaluator: str) -> str | None:
    """The inverse of `evaluator_of`; None for anybody else's evaluator."""
    return evaluator.removeprefix(_OUR_JUDGE) or None if evaluator.startswith(_OUR_JUDGE) else None


def tags_as_text(tags: Mapping[str, Sequence[str]]) -> str:
    """A judge's further tags as its reasoning; several of them keep their names."""
    if list(tags) == [REASONING] and len(tags[REASONING]) == 1:
        return tags[REASONING][0]
    return "\n".join(f"<{tag}>{text}</{tag}>" for tag, texts in tags.items() for text in texts)


def text_as_tags(text: str, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The inverse of `tags_as_text`.

    Args:
        text: the reasoning.
        names: of the tags that the judge was asked for.
    """
    if not text:
        return {}
    found: dict[str, tuple[str, ...]] = {}
    rest = text
    while names:
        opened = next((one for one in names if rest.startswith(f"<{one}>")), None)
        if opened is None:
            break
        # As few characters as leave either nothing, or another tag.
        following = "|".join(f"<{re.escape(name)}>" for name in names)
        closing = re.compile(rf"(.*?)</{re.escape(opened)}>(?:\Z|\n(?={following}))", re.DOTALL)
        match = closing.match(rest, len(opened) + 2)
        if match is None:
            break
        found[opened] = (*found.get(opened, ()), match[1])
        rest = rest[match.end() :]
        if not rest:
            return found
    return {REASONING: (text,)}
