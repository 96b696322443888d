"""Real fakes: parts with scripted behaviour that fulfil the same contracts.

They are what knowgate's own tests use, and what a test of an application that
contains a guard should use: no patching, no network, no model.

Example:
    >>> from knowgate.guard import Guard, Policy
    >>> scorer = FakeScorer({"opening hours": 0.9}, default=0.1)
    >>> policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    >>> guard = Guard(policy, scorer=scorer, metrics=False)
    >>> guard.decide("When?", ["Our opening hours are nine to five."]).route.value
    'follow_context'
"""

from __future__ import annotations

from ._fakes import FakeConflictDetector, FakeEstimator, FakeScorer, ScriptedLanguageModel

__all__ = ["FakeConflictDetector", "FakeEstimator", "FakeScorer", "ScriptedLanguageModel"]
