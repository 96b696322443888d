"""UAQFact: does the model know when a question has no answer?

    folder ─► UaqData.read ─► items and choices ─► tasks 1, 2, 3 ─► run ─► metrics ─► report

Source: "UAQFact: Evaluating Factual Knowledge Utilization of LLMs on Unanswerable Questions".
"""

from __future__ import annotations

# Asked for by its name: `find_suite("uaqfact")`.
__all__: list[str] = []
