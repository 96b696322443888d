"""A veto of your own: abstain when a passage is out of date. `python examples/veto.py`."""

from __future__ import annotations

from datetime import date

from langchain_core.documents import Document

from knowgate.guard import Fingerprint, Guard, Policy, Request, Veto
from knowgate.guard.signals.relevance import LexicalScorer


class Age(Veto[float]):
    """Years since the oldest passage was written."""

    name, reason = "age", "passage_too_old"

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy is bound to."""
        return Fingerprint(kind="age")

    def measure(self, request: Request) -> float:
        """Measure one question; the guard abstains from the policy's threshold on."""
        written = [date.fromisoformat(one.metadata["date"]) for one in request.documents]  # type: ignore[attr-defined]
        return (date.today() - min(written)).days / 365


def build() -> Guard:
    """Build a guard with the veto; `Policy.load("policy.json")` takes the place of the policy."""
    scorer, age = LexicalScorer(), Age()
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.3)
    return Guard(policy.with_veto(age, threshold=1.0), scorer=scorer, vetoes=[age])


if __name__ == "__main__":
    guard = build()
    for written in (date.today().isoformat(), "2015-01-01"):
        page = Document("The library is open from nine.", metadata={"date": written})
        decision = guard.decide("From when is the library open?", [page])
        print(f"written {written}: {decision.route} ({decision.reason}), {decision.vetoes}")
