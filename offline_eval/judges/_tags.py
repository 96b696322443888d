"""Verdicts in the messages of language models: `<abstention>yes</abstention>`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# Around an outcome, where a model decorates it: **yes**, `yes`, "yes".
_DECORATION = " \t\r\n*_`\"'“”‘’.。!"
_MOST_REASONING = 8_000


@dataclass(frozen=True, slots=True)
class TaggedVerdict:
    """A verdict that was found in a message.

    Attributes:
        outcome: one of those allowed, as they were given.
        reasoning: what stands before the tag, or after it where nothing does, stripped;
            of a very long one the end.
    """

    outcome: str
    reasoning: str


def parse_tag(text: str, tag: str, outcomes: Sequence[str]) -> TaggedVerdict | None:
    """The last valid verdict in `text`, None where there is none.

    Tag and outcome are read in any case, with spaces, Markdown and quotes around the
    outcome, with spaces or hyphens for its underscores, and nested tags from the innermost
    out. A tag that is not closed counts where nothing but an outcome follows. A tag whose
    content is anything but one of the outcomes does not count.

    Args:
        text: what the model wrote.
        tag: name of the tag.
        outcomes: those allowed; see `folded_outcome` for when two are alike.

    Example:
        >>> parse_tag("It declines.\\n<Abstention> **Yes** </Abstention>", "abstention",
        ...           ["yes", "no"])
        TaggedVerdict(outcome='yes', reasoning='It declines.')
    """
    allowed = {folded_outcome(outcome): outcome for outcome in outcomes}
    longest = max(map(len, allowed), default=0) + 64
    # Bounded repeats keep this linear on any text.
    marks = list(
        re.finditer(rf"<\s{{0,8}}(/?)\s{{0,8}}{re.escape(tag)}\s{{0,8}}>", text, re.IGNORECASE)
    )
    for index in range(len(marks) - 1, -1, -1):
        mark = marks[index]
        if mark.group(1):
            continue
        end = marks[index + 1].start() if index + 1 < len(marks) else len(text)
        # What is longer than any outcome cannot be one, and is not worth folding.
        content = text[mark.end() : end].strip()
        outcome = allowed.get(folded_outcome(content)) if len(content) <= longest else None
        if outcome is not None:
            before = text[: mark.start()].strip()
            after = text[marks[index + 1].end() :].strip() if index + 1 < len(marks) else ""
            return TaggedVerdict(outcome, (before or after)[-_MOST_REASONING:])
    return None


def folded_outcome(outcome: str) -> str:
    """The form in which outcomes are compared.

    Example:
        >>> folded_outcome("Tier 1"), folded_outcome("`over-specification`.")
        ('tier_1', 'over_specification')
    """
    plain = outcome.strip(_DECORATION).casefold()
    return re.sub(r"[\s_-]+", "_", plain.replace("\\_", "_"))
