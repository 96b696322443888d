"""What is done in Python, not by a command: guards asked directly, labels given by a person."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda

from knowgate.adapters.langchain import ChatModelLM, GuardedRAG
from knowgate.guard import Decision, Guard, GuardOptions, Policy, Route
from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.fingerprint import default_aggregator
from knowgate.guard.policy import IdentityCalibrator, default_calibrator
from knowgate.guard.signals.answerability import PremiseChecker
from knowgate.guard.signals.confidence import SampledConsistency, load_estimator
from knowgate.guard.signals.conflict import PassageConflict, SameMeaning
from knowgate.guard.signals.relevance import LexicalScorer, load_scorer
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.data.diversity import filter_questions_file
from knowgate.offline_eval.judging.labelling.session import LabelSession
from knowgate.offline_eval.run import RepliesRun
from tools.microworld.check import check_microworld

# Of so many documents of the microworld one is kept.
_ONE_OF = 12
ALL_ROUTES = (Route.FOLLOW_CONTEXT, Route.ANSWER, Route.ABSTAIN)


def _cases(folder: Path) -> list[tuple[str, list[str]]]:
    lines = (folder / "in" / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    found = []
    for line in map(json.loads, lines):
        texts = [
            one if isinstance(one, str) else next(iter(one.values())) for one in line["passages"]
        ]
        found.append((line["question"], texts))
    return found


def _told(decision: Decision) -> dict[str, Any]:
    return decision.model_dump(mode="json", exclude={"timings"})


def guards(folder: Path) -> dict[str, Any]:
    """Decisions of a guard with each bundled scorer, singly and as a batch."""
    cases, found = _cases(folder), {}
    for name in ("lexical", "bi_encoder", "late_interaction", "sufficiency"):
        scorer = load_scorer(name)
        # Log-odds are made probabilities; the other scores are what they were stored as.
        log_odds = name == "sufficiency"
        calibrator = default_calibrator(scorer.fingerprint) if log_odds else IdentityCalibrator()
        policy = Policy(
            scorer=scorer.fingerprint,
            aggregator=default_aggregator(scorer.fingerprint.kind),
            relevance_calibrator=calibrator,
            relevance_threshold=calibrator.apply(0.3),
        )
        options = GuardOptions(deadlines={"relevance": None})
        guard = Guard(policy, scorer=scorer, metrics=False, options=options)
        together = guard.decide_batch([q for q, _ in cases], [p for _, p in cases])
        found[name] = {
            "alone": [_told(guard.decide(*case)) for case in cases],
            "together": [_told(decision) for decision in together],
        }
    return found


def conflicts(folder: Path) -> list[dict[str, Any]]:
    """Decisions where passages contradict each other, and where a premise does not hold."""
    lm = ScriptedLanguageModel({"at nine": "nine", "at ten": "ten"})
    scorer = LexicalScorer()
    policy = Policy(
        scorer=scorer.fingerprint,
        relevance_threshold=0.3,
        check_conflict=True,
        conflict_between="passages",
        on_conflict="show_both",
    )
    premise = PremiseChecker()
    guard = Guard(
        policy.with_veto(premise),
        scorer=scorer,
        conflict_detector=PassageConflict(lm, same=SameMeaning("bi_encoder")),
        vetoes=[premise],
        metrics=False,
    )
    opens = "When does it open?"
    return [
        _told(guard.decide(opens, ["It does open at nine.", "We open at ten."])),
        _told(guard.decide(opens, ["It does open at nine.", "It will open at nine sharp."])),
        _told(
            guard.decide(
                "Who translated the Gita and is also the mother of Ann?",
                ["The Gita was translated by Bo Lind.", "The mother of Ann is Cy Dahl."],
            )
        ),
    ]


def confidences(folder: Path) -> dict[str, Any]:
    """What estimators make of a scripted model."""
    questions = ["What is the capital of France?", "Who designed the fountain?"]
    found: dict[str, Any] = {}
    for name in ("sampled_consistency", "semantic_entropy"):
        lm = ScriptedLanguageModel({"France": "Paris", "fountain": "Ada Brook"}, default="80")
        estimates = [load_estimator(name, lm).estimate(question) for question in questions]
        found[name] = [[one.value, one.answer, one.calls] for one in estimates]
    return found


def guarded_rag(folder: Path) -> list[dict[str, Any]]:
    """Answers of a guarded chain that takes all three routes."""
    documents = [
        Document("The library opens at nine in the morning and closes at six."),
        Document("A lost reader card costs four euros to replace."),
    ]
    guesses = iter(["Ada Brook", "Ines Falk", "Tom Reed", "Lia Stern"] * 20)

    def reply(prompt: Any) -> str:
        text = str(prompt.to_string() if hasattr(prompt, "to_string") else prompt)
        if "Context:" in text:
            return text.partition("Context: ")[2].partition("\n")[0]
        return "Paris" if "capital of France" in text else next(guesses)

    model = importlib.import_module("golden_models").FunctionChat(function=reply)
    scorer = LexicalScorer()
    policy = Policy(
        scorer=scorer.fingerprint,
        relevance_threshold=0.2,
        confidence_threshold=0.7,
        allowed_routes=ALL_ROUTES,
    )
    guard = Guard(
        policy, scorer=scorer, estimator=SampledConsistency(ChatModelLM(model)), metrics=False
    )
    chain = GuardedRAG(
        guard=guard,
        retriever=RunnableLambda(lambda question: documents),
        with_context=ChatPromptTemplate.from_template("Context: {context}\nQ: {question}") | model,
        closed_book=ChatPromptTemplate.from_template("Question: {question}") | model,
    )
    found = []
    for question in (
        "When does the library open in the morning?",
        "What is the capital of France?",
        "Who designed the garden fountain?",
    ):
        answer = chain.invoke(question)
        found.append(
            {
                "answer": answer.answer,
                "documents": [one.page_content for one in answer.documents],
                "decision": _told(answer.decision),
            }
        )
    return found


def label(folder: Path) -> int:
    """Two annotators label a sample of a run's replies by rules of thumb that differ."""
    run = RepliesRun.read(folder / "run")
    labels = 0
    for name, slip in (("anna", 7), ("bob", 4)):
        session = LabelSession.annotate(run, name, size=14, seed=1)
        for position in range(len(session)):
            text = session.item(position)["response"]
            number = sum(map(ord, text))
            declines = any(word in text for word in ("not", "Sorry"))
            said = "yes" if declines is bool(number % slip) else "no"
            session.label(position, "abstention", said)
            labels += 1
            if said == "no":
                session.label(position, "factuality", f"tier_{1 + (number + slip) % 3}")
                labels += 1
    return labels


@contextmanager
def fewer_documents() -> Iterator[None]:
    """Retrieve among fewer of the microworld's documents: encoding them takes most of the time."""
    world: Any = importlib.import_module("knowgate.offline_eval.suites.uniknow._contexts")

    class Fewer(world.NearestPassages):  # type: ignore[misc]
        def __init__(self, passages: Sequence[str], *others: Any) -> None:
            super().__init__(passages[::_ONE_OF], *others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world, "NearestPassages", Fewer)
        yield


def diverse(folder: Path) -> dict[str, int]:
    """Questions that differ."""
    kept, dropped = folder / "diverse.jsonl", folder / "diverse.dropped.jsonl"
    found = filter_questions_file(folder / "in" / "similar.jsonl", kept, dropped, BiEncoderScorer())
    return {"diverse": len(found.kept)}


def check_world(folder: Path) -> None:
    """What the bundled language model does in each scenario."""
    found = check_microworld(questions=2)
    (folder / "check.json").write_text(json.dumps(found.to_json()), encoding="utf-8")
