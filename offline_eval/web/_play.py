"""The page of `knowgate play`: ask a chain, see why it decides so, strike passages out."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from fastapi import Body, FastAPI, HTTPException
from fastapi.responses import JSONResponse, Response, StreamingResponse
from langchain_core.runnables import RunnableLambda

from ...adapters.langchain import GuardedRAG
from ...guard.deadlines import asked_to_stop
from ...guard.decision import Decision
from ...guard.errors import InputError, KnowgateError
from ...guard.text import clean_text, passage_text
from ..run import Stored
from ..run.table import SharedLog
from ._pages import citation_values, match_values, new_app, page

_REMEMBERED = 50


class SavedQuestion(Stored):
    """A line of a question file, as `knowgate measure --questions` reads it."""

    # Lines of other programs are read as well: they may lack these, or name them otherwise.
    id: Any = None
    question: Any = None
    answer: Any = None
    passage: str | None = None
    source: str | None = None


class Playground:
    """A guarded chain to try questions on.

    Args:
        chain: asked for every question; whatever it raises is told by its type alone.
        title: what the page calls the chain.
        questions: the file that cases are saved to.
        examples: questions to begin with.

    Raises:
        InputError: the file is not one of JSON lines.
    """

    def __init__(
        self,
        chain: GuardedRAG,
        title: str,
        questions: Path,
        *,
        examples: Sequence[str] = (),
    ) -> None:
        if questions.suffix.lower() not in (".jsonl", ".ndjson"):
            what, hint = "is no file of JSON lines", "name a .jsonl file"
            raise InputError(what, where=str(questions), hint=hint)
        self.chain, self.title = chain, title
        self.questions, self.examples = questions, tuple(examples)
        self._retrieved: dict[str, list[Any]] = {}
        self._log = SharedLog(questions, SavedQuestion, opening='{"id": "play-')

    async def answer(
        self, question: str, struck: Sequence[int] | None
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the passages, the decision, the pieces of the reply, and the end.

        Args:
            question: as typed.
            struck: numbers of passages that are left out of those retrieved before, which are
                taken again; None for a new question.
        """
        try:
            found = None if struck is None else self._retrieved.get(question)
            if found is None:
                found = await self._retrieve(question)
            struck = struck or ()
            shown = [{"text": passage_text(one), "source": _source(one)} for one in found]
            yield {"event": "passages", "passages": shown}
            places = [number for number in range(len(found)) if number not in struck]
            kept = [found[number] for number in places]
            chain = self.chain.with_parts(retriever=RunnableLambda(lambda _question: kept))
            begun, text, decision = False, "", None
            async for chunk in chain.astream(question):
                if not begun:
                    begun, decision = True, chunk.decision
                    yield {"event": "decision", **self._decision(chunk.decision, places)}
                text += chunk.answer
                if chunk.answer:
                    yield {"event": "text", "text": chunk.answer}
                if chunk.reply_abstained:
                    yield {"event": "abstained"}
            if decision is not None and decision.kept:
                used = [places[one] for one in decision.kept]
                values = citation_values(text, [passage_text(found[one]) for one in used], question)
                for sentence in values["sentences"]:
                    at = sentence["passage"]
                    sentence["passage"] = None if at is None else used[at]
                yield {"event": "citations", **values}
            yield {"event": "end"}
        except KnowgateError as error:
            yield {"event": "error", "message": str(error)}
        except asyncio.CancelledError:
            if asked_to_stop():
                raise  # the page has left
            yield {"event": "error", "message": "the chain raised CancelledError"}
        except Exception as error:  # noqa: BLE001 - its text may hold a key
            yield {"event": "error", "message": f"the chain raised {type(error).__name__}"}

    async def _retrieve(self, question: str) -> list[Any]:
        found = list(await self.chain.retriever.ainvoke(question))
        self._retrieved.pop(question, None)
        self._retrieved[question] = found
        for oldest in list(self._retrieved)[:-_REMEMBERED]:
            self._retrieved.pop(oldest, None)
        return found

    def _decision(self, decision: Decision, places: Sequence[int]) -> dict[str, Any]:
        """What the page shows of a decision; `places` are the numbers of the passages."""
        policy = self.chain.guard.policy
        signals: list[tuple[str, float | None, float | None]] = [
            ("relevance", decision.relevance, policy.relevance_threshold),
            ("raw relevance", decision.raw_relevance, None),
            ("confidence", decision.confidence, policy.confidence_threshold),
            *((name, value, None) for name, value in decision.vetoes.items()),
        ]
        notes = [f"failed: {name}" for name in decision.failed_signals]
        if decision.conflict is not None:
            notes.append("conflict found" if decision.conflict else "no conflict")
        if decision.answerability is not None:
            notes.append(f"premises: {decision.answerability.premise.value}")
        return {
            "route": decision.route.value,
            "reason": str(decision.reason),
            "scenario": None if decision.scenario is None else decision.scenario.value,
            "signals": [
                {"name": name, "value": value, "threshold": limit}
                for name, value, limit in signals
                if value is not None
            ],
            "scores": dict(zip(places, decision.scores, strict=False)),
            "kept": [places[one] for one in decision.kept if one < len(places)],
            "notes": notes,
            "milliseconds": round(1000 * decision.timings.get("total", 0.0), 1),
        }

    def matches(self, question: str) -> dict[str, Any]:
        """Return the words that match in what was retrieved for a question."""
        found = self._retrieved.get(question)
        if found is None:
            raise HTTPException(404, "ask the question first")
        return match_values(question, [passage_text(one) for one in found])

    def save(self, question: str, answer: str, passage: int | None) -> None:
        """Append a case to the question file.

        Raises:
            InputError: the file cannot be used.
            HTTPException: the question is in it already.
        """
        held: dict[str, str | None] = {}
        if passage is not None:
            found = self._retrieved.get(question, [])
            if passage >= len(found):
                raise HTTPException(404, "there is no such passage")
            one = found[passage]
            held = {"passage": passage_text(one), "source": _source(one) or None}
        name = "play-" + hashlib.sha256(question.encode("utf-8", "replace")).hexdigest()[:12]
        if any(row.id == name for _, row in self._log.places()):
            raise HTTPException(409, "the question is in the file already")
        self._log.append([SavedQuestion(id=name, question=question, answer=answer, **held)])


_Question = Annotated[str, Body(max_length=20_000, embed=True)]
_Answer = Annotated[str, Body(min_length=1, max_length=20_000)]
_Struck = Annotated[list[int] | None, Body(max_length=1000)]
_Passage = Annotated[int | None, Body(ge=0)]


def play_app(ground: Playground) -> FastAPI:
    """Return the page of `knowgate play`."""
    app = new_app((("/", "Playground"),))
    saving = asyncio.Lock()

    @app.get("/")
    def first() -> Response:
        return page(app, "play.html", ground=ground, policy=ground.chain.guard.policy)

    @app.post("/ask")
    async def ask(question: _Question, struck: _Struck = None) -> Response:
        if not question.strip():
            raise HTTPException(400, "type a question")

        async def lines() -> AsyncIterator[str]:
            async for event in ground.answer(question.strip(), struck):
                yield json.dumps(event) + "\n"

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    @app.post("/words")
    def words(question: _Question) -> Response:
        return JSONResponse(ground.matches(question.strip()))

    @app.post("/save")
    async def save(question: _Question, answer: _Answer, passage: _Passage = None) -> Response:
        question, answer = question.strip(), clean_text(answer).strip()
        if not clean_text(question).strip() or not answer:
            raise HTTPException(400, "type the question and its answer")
        async with saving:
            await asyncio.to_thread(ground.save, question, answer, passage)
        return JSONResponse({"saved": str(ground.questions)})

    return app


def _source(document: Any) -> str:
    """The name in the metadata as it stands there, by which `measure` looks the source up."""
    metadata = getattr(document, "metadata", None)
    found = metadata.get("title") or metadata.get("source") if isinstance(metadata, dict) else None
    return "" if found is None else str(found)
