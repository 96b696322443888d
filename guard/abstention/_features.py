"""A reply as a handful of numbers, the same ones in every language."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

from ._citation import Citation
from ._clauses import JudgedClause, Role, is_whole_abstention, judge_clauses, opens_with_yes_or_no
from ._patterns import Strength
from ._reading import Reply

FEATURE_NAMES = (
    "whole_reply_is_no_answer",
    "explicit_first",
    "explicit_later",
    "silent_first",
    "silent_later",
    "hint_first",
    "hint_later",
    "refusal_share",
    "yes_or_no_before_refusal",
    "no_citation",
    "no_citation_and_refusal",
    "citation_and_refusal",
)
"""What `features` measures, in the order of the weights."""

_NAME_OF_STRENGTH: Mapping[Strength, str] = {
    Strength.EXPLICIT: "explicit",
    Strength.SILENT: "silent",
    Strength.HINT: "hint",
}
# "Contact the registry" answers where nothing was refused yet.
_ANSWERING = (Role.SUBSTANCE, Role.REDIRECT)


def features(reply: Reply) -> dict[str, float]:
    """The features of a reply, by name; all are within [0, 1].

    A refusal that comes before anything of substance is "first", any other "later".
    """
    found = dict.fromkeys(FEATURE_NAMES, 0.0)
    if is_whole_abstention(reply.clauses):
        found.update(whole_reply_is_no_answer=1.0, explicit_first=1.0)
    found["no_citation"] = float(reply.citation is Citation.NONE)
    clauses = judge_clauses(reply.clauses)
    if any(clause.role is Role.REFUSAL for clause in clauses):
        _add_refusals(found, clauses)
    elif found["explicit_first"]:
        found["refusal_share"] = 1.0
    else:
        return found
    found["no_citation_and_refusal"] = float(reply.citation is Citation.NONE)
    found["citation_and_refusal"] = float(reply.citation is Citation.CITED)
    return found


def _add_refusals(found: dict[str, float], clauses: list[JudgedClause]) -> None:
    before = list(takewhile(lambda clause: clause.role is not Role.REFUSAL, clauses))
    after = clauses[len(before) :]
    led = not any(clause.role in _ANSWERING for clause in before)
    first = after[0]
    if led:
        found[f"{_NAME_OF_STRENGTH[first.strength]}_first"] = 1.0
    for clause in after[1:] if led else after:
        if clause.strength is not Strength.NONE:
            found[f"{_NAME_OF_STRENGTH[clause.strength]}_later"] = 1.0
    found["refusal_share"] = _share(before, after)
    found["yes_or_no_before_refusal"] = float(led and opens_with_yes_or_no(clauses[0].clause))


def _share(before: list[JudgedClause], after: list[JudgedClause]) -> float:
    """Words in refusals, over words in refusals and substance; a hint's count half."""
    refusing = sum(
        clause.units / (2 if clause.strength is Strength.HINT else 1)
        for clause in after
        if clause.role is Role.REFUSAL
    )
    hinting = sum(clause.units / 2 for clause in after if clause.strength is Strength.HINT)
    substance = sum(clause.units for clause in before if clause.role in _ANSWERING) + sum(
        clause.units for clause in after if clause.role is Role.SUBSTANCE
    )
    total = refusing + hinting + substance
    return refusing / total if total else 1.0
