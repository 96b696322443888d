"""What a chain says when the guard abstains."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType

from ...guard import InputError, Reason

DEFAULT = "default"
_BUNDLED = "abstention_replies.json"


class Replies:
    """Replies by reason of the abstention.

    Args:
        replies: one text for all reasons; or reason → text, where `default` stands
            for every reason that is not named; or None for the bundled texts.
            Reasons that neither the mapping nor its `default` covers keep theirs.

    Raises:
        InputError: a key is no reason, or a reply is not text.

    Example:
        >>> replies = Replies({"conflict": "Sources disagree.", "default": "Sorry."})
        >>> replies.to(Reason.CONFLICT), replies.to(Reason.NEITHER_KNOWS)
        ('Sources disagree.', 'Sorry.')
    """

    def __init__(self, replies: str | Mapping[Reason | str, str] | None = None) -> None:
        if isinstance(replies, str):
            replies = {DEFAULT: replies}
        given = _checked({} if replies is None else replies)
        self._texts = given if DEFAULT in given else {**bundled_replies(), **given}

    def to(self, reason: Reason) -> str:
        """The reply for an abstention for `reason`."""
        return self._texts.get(reason.value, self._texts[DEFAULT])


@cache
def bundled_replies() -> Mapping[str, str]:
    """Reason → reply, as shipped."""
    text = resources.files(__package__).joinpath(_BUNDLED).read_text(encoding="utf-8")
    return MappingProxyType(_checked(json.loads(text)))


def _checked(replies: Mapping[Reason | str, str]) -> dict[str, str]:
    if not isinstance(replies, Mapping):
        raise InputError(
            f"is a {type(replies).__name__}",
            where="replies",
            mend="give one text, or a mapping from reason to text",
        )
    known = {reason.value for reason in Reason} | {DEFAULT}
    # A member of a StrEnum is its own value, so both kinds of key compare alike.
    unknown = sorted(str(key) for key in replies if key not in known)
    if unknown:
        raise InputError(
            f"no reason to abstain is called {', '.join(unknown)}",
            where="replies",
            mend=f"one of: {', '.join(sorted(known))}",
        )
    if not all(isinstance(text, str) for text in replies.values()):
        raise InputError("holds a reply that is not text", where="replies", mend="give texts")
    return {str(key): text for key, text in replies.items()}
