"""The prompts that KnowOrNot sends: building them, and finding the context in one."""

from __future__ import annotations

from collections.abc import Iterable

from ._schemas import QuestionEntry

_CONTEXT = "The context is "


def prompt_text(system_prompt: str, question: str, context: Iterable[QuestionEntry] | None) -> str:
    """The whole prompt, character by character as KnowOrNot sends it; None is no context."""
    if context is None:
        return f"{system_prompt}\n{question}"
    pairs = "".join(
        f"Question {number}: {entry.question}\nAnswer {number}: {entry.answer}\n"
        for number, entry in enumerate(context)
    )
    return f"{system_prompt}{question}\n{_CONTEXT}{pairs}"


def context_in_prompt(prompt: str) -> tuple[QuestionEntry, ...] | None:
    """The entries that stand in a prompt, without ids; None where there is no context."""
    start = prompt.find(f"\n{_CONTEXT}Question 0: ")
    if start < 0:
        return None
    rest = prompt[start + 1 + len(_CONTEXT) :]
    entries: list[QuestionEntry] = []
    while rest.startswith(head := f"Question {len(entries)}: "):
        question, found, rest = rest[len(head) :].partition(f"\nAnswer {len(entries)}: ")
        if not found:
            break
        answer, found, rest = rest.partition(f"\nQuestion {len(entries) + 1}: ")
        if found:
            rest = found[1:] + rest
        else:
            answer = answer.removesuffix("\n")
        entries.append(QuestionEntry(question=question, answer=answer))
    return tuple(entries)
