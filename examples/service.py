"""Guarded answers in an application of FastAPI: `uvicorn examples.service:app`.

    curl -s localhost:8000/ask -d '{"question": "When does the library open?"}' \
      -H 'content-type: application/json'

Needs `knowgate[serve]`. `/guard` is the whole API of `knowgate serve`, as /guard/openapi.json
describes it.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from knowgate import Guard
from knowgate.adapters.serve import create_app

PAGES = ["The library opens at nine.", "A lost reader card costs four euros to replace."]


class Question(BaseModel):
    """What a user asks."""

    question: str


guard = Guard.default()
app = FastAPI(title="Library")
app.mount("/guard", create_app(guard))


@app.post("/ask")
async def ask(asked: Question) -> dict[str, Any]:
    """Answer from the pages, or abstain."""
    decision = await guard.adecide(asked.question, PAGES)
    if decision.route == "abstain":
        return {"answer": "I do not know.", "reason": str(decision.reason)}
    kept = [PAGES[index] for index in decision.kept]
    return {"answer": kept[0], "reason": str(decision.reason)}  # put your model here
