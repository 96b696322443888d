"""Replies of a guarded chain: texts for abstentions, and templates that show all views."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

from ...guard.contracts import View
from ...guard.decision import Decision, Reason, Route
from ...guard.errors import InputError, require_known
from ...guard.prompts import Prompt
from ...guard.text import passage_name

if TYPE_CHECKING:
    from ...guard import Guard
    from ...guard.signals.support.contracts import ReplyVerdict

Language = Literal["en", "zh"]

DEFAULT = "default"
_SHOWS_BOTH = Reason.CONFLICT_SHOWS_BOTH.value


def _read(name: str) -> Any:
    return json.loads(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))


# By language: reason → text, and template → text.
_REPLIES = {"en": _read("abstention_replies.json"), "zh": _read("abstention_replies_zh.json")}
_TEMPLATES = _read("view_templates.json")
# Template → slots that it must have; it can have no others.
_SLOTS = {name: Prompt(name, text).slots for name, text in _TEMPLATES["en"].items()}


class Replies:
    """Replies by reason of the abstention, and templates for a reply that shows all views.

    Args:
        replies: one text for all reasons; or reason → text, where `default` stands
            for every reason that is not named; or None for the bundled texts.
            Reasons that neither the mapping nor its `default` covers keep theirs.
            Templates are replaced by their own names only: `conflict_shows_both`
            with the slot `{views}`, each view being a line made of
            `view_of_passages` or `view_of_both` (`{answer}`, `{sources}`) or
            `view_of_memory` (`{answer}`); a source without a name is a `passage`
            (`{number}`), and `between_sources` stands between two.
        language: of the bundled texts, `en` or `zh`.
        veto_reasons: reasons of one's own vetoes that the mapping may name, such as
            `guard.veto_reasons`.

    Raises:
        InputError: a key is no reason, a reply is not text, or a template has
            other slots than those.

    Example:
        >>> replies = Replies({"conflict": "Sources disagree.", "default": "Sorry."})
        >>> replies.to(Reason.CONFLICT), replies.to(Reason.NEITHER_KNOWS)
        ('Sources disagree.', 'Sorry.')
    """

    @classmethod
    def of(
        cls, replies: str | Mapping[Reason | str, str] | Replies | None, guard: Guard
    ) -> Replies:
        """Return what `replies` states for a guard and its vetoes; `Replies` as they are."""
        if isinstance(replies, Replies):
            return replies
        return cls(replies, veto_reasons=guard.veto_reasons)

    def __init__(
        self,
        replies: str | Mapping[Reason | str, str] | None = None,
        *,
        language: Language = "en",
        veto_reasons: Collection[str] = (),
    ) -> None:
        require_known(language, _REPLIES, "language")
        if isinstance(replies, str):
            replies = {DEFAULT: replies}
        given = _checked({} if replies is None else replies, veto_reasons)
        templates = {name: given.pop(name) for name in _SLOTS if name in given}
        self._texts = given if DEFAULT in given else {**_REPLIES[language], **given}
        self._templates = {**_TEMPLATES[language], **_checked_templates(templates)}

    def to(self, reason: Reason | str) -> str:
        """The reply for an abstention for `reason`."""
        return self._texts.get(str(reason), self._texts[DEFAULT])

    def showing(self, views: Sequence[View], passages: Sequence[object]) -> str:
        """The reply that names every view and its sources.

        Args:
            views: the answers, with indices of `passages`.
            passages: what was retrieved, in order. A document is named by the
                `title` or else the `source` in its metadata, or else by its number.
        """
        lines = [self._line(view, passages) for view in views]
        return self._filled(_SHOWS_BOTH, views="\n".join(lines))

    def delivered(self, verdict: ReplyVerdict) -> str:
        """What is delivered of a reply that was checked: the refusal where it is withheld."""
        return self.to(Reason.REPLY_UNSUPPORTED) if verdict.text is None else verdict.text

    def standing(self, decision: Decision, passages: Sequence[object]) -> str | None:
        """The reply that stands after `decision` on `passages`; None where a model is asked.

        That is an abstention's, or all views of passages in conflict.
        """
        if decision.route is Route.ABSTAIN:
            return self.to(decision.reason)
        if decision.reason is Reason.CONFLICT_SHOWS_BOTH:
            return self.showing(decision.views, passages)
        return None

    def _line(self, view: View, passages: Sequence[object]) -> str:
        answer = " ".join(view.answer.split())
        if not view.passages:
            return self._filled("view_of_memory", answer=answer)
        names = dict.fromkeys(self._name(passages, index) for index in view.passages)
        sources = self._templates["between_sources"].join(names)
        name = "view_of_both" if view.from_memory else "view_of_passages"
        return self._filled(name, answer=answer, sources=sources)

    def _name(self, passages: Sequence[object], index: int) -> str:
        name = passage_name(passages[index]) if index < len(passages) else ""
        return name or self._filled("passage", number=str(index + 1))

    def _filled(self, name: str, **values: str) -> str:
        return Prompt(name, self._templates[name]).fill(**values)


def _checked(
    replies: Mapping[Reason | str, str], veto_reasons: Collection[str] = ()
) -> dict[str, str]:
    if not isinstance(replies, Mapping):
        what = f"is a {type(replies).__name__}"
        hint = "give one text, or a mapping from reason to text"
        raise InputError(what, where="replies", hint=hint)
    known = {reason.value for reason in Reason} | {DEFAULT, *veto_reasons, *_SLOTS}
    # A member of a StrEnum is its own value, so both kinds of key compare alike.
    unknown = sorted(str(key) for key in replies if key not in known)
    if unknown:
        what = f"no reason to abstain is called {', '.join(unknown)}"
        raise InputError(what, where="replies", hint=f"one of: {', '.join(sorted(known))}")
    if not all(isinstance(text, str) for text in replies.values()):
        raise InputError("holds a reply that is not text", where="replies", hint="give texts")
    return {str(key): text for key, text in replies.items()}


def _checked_templates(templates: Mapping[str, str]) -> dict[str, str]:
    for name, text in templates.items():
        if Prompt(name, text).slots != _SLOTS[name]:
            slots = ", ".join(f"{{{slot}}}" for slot in sorted(_SLOTS[name])) or "none"
            what = f"the template {name} has other slots than it is given"
            raise InputError(what, where="replies", hint=f"slots that are filled: {slots}")
    return dict(templates)
