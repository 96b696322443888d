"""`knowgate demo`: the whole way from a knowledge base to guarded answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableLambda
from sentencex import segment

from ...adapters.langchain import GuardedRAG
from ...calibration.risk import Leak
from ...guard import Guard, GuardOptions
from ...guard.engine import BiEncoderScorer
from ..data.questions import PassageKind, QuestionRecord
from ..policies import Calibrated, calibrate_records, write_calibrated
from ..policies.records import CalibrationSet
from ..run.calls import RunOptions
from ..suites import ModelChoice, run_suite, write_report
from ..suites.ookb import MEASURE, OokbSuite
from ..systems.factory import load_chat_model
from ..systems.served import search_in
from ..testbed import sample_knowledge_base_path
from ._calibrate import rate_text
from ._console import call_progress, out, print_figures, tell
from ._options import prints_figures

DELTA = 0.1
# Calibrated together; the one that abstains least serves.
SCORERS = ("sufficiency", "late_interaction")
RISK = 0.2
# Articles that the live help desk does not have, so that their questions must be abstained from.
MISSING_ARTICLES = 5
LIVE_QUESTIONS = 12
# No deadline: how busy the machine is must not change what the demo shows.
_PATIENT: Mapping[str, float | None] = {"relevance": None}


@prints_figures
def demo(
    out_dir: Path = Path("knowgate-demo"),
    model: str | None = None,
) -> None:
    """Guard a small RAG chain, calibrate it and report: offline, without a key.

    Example: `knowgate demo --out knowgate-demo`

    Args:
        out_dir: Folder for run, policy and report.
        model: A language model that reads the articles, with and without the guard, e.g.
            smollm2 (minutes of CPU time).
    """
    if model is not None:
        # Before anything is measured: it may be missing.
        load_chat_model(model)
    questions = sample_knowledge_base_path()
    records = QuestionRecord.read(questions)
    tell("demo_begins", records)
    found = measured_and_calibrated(questions, out_dir)
    policy, chosen = out_dir / "policy.json", found.measured.name
    write_calibrated(found, policy)
    report = write_report(out_dir / chosen).html
    if found.policy.guarantee is not None:
        out.print(f"\n{found.policy.guarantee.statement}\n")
    tell("demo_chosen", SCORERS, chosen, rate_text(found.false_abstention))
    out.print()
    if model is None:
        guard = Guard.load(policy, options=GuardOptions(deadlines=_PATIENT), metrics=False)
        answers = live_answers(guard, records)
        for one in answers:
            _show(one)
        figures: dict[str, Any] = {"answers": answers}
    else:
        figures = _read_by(model, questions, out_dir, chosen)
    print_figures({**figures, "policy": policy, "report": report})
    out.print(f"\npolicy → {policy}\nreport → {report} (open it in a browser)")


def measured_and_calibrated(questions: Path, folder: Path) -> Calibrated:
    """Measure questions by each scorer, into a run of its name, and calibrate the best."""
    with call_progress() as advance:
        for name in SCORERS:
            settings = MEASURE.settings(
                questions=questions,
                scorer=name,
                passage=PassageKind.TITLED,
            )
            options = RunOptions(on_progress=advance)
            run_suite(MEASURE, settings, folder / name, ModelChoice(""), options)
    runs = [CalibrationSet.of_run(folder / name) for name in SCORERS]
    return calibrate_records(runs, Leak(RISK), delta=DELTA, counted=True)


# -- the help desk ------------------------------------------------------------------


def extractive_reader() -> Runnable[Any, str]:
    """Return a runnable that answers with the sentence of the context nearest to the question."""
    encoder = BiEncoderScorer()

    def read(given: Mapping[str, Any]) -> str:
        lines = [
            line for text in str(given["context"]).splitlines() for line in segment("en", text)
        ]
        # A title answers nothing.
        sentences = [one.strip() for one in lines if one.strip().endswith((".", "!", "?"))] or lines
        vectors = encoder.embed([str(given["question"]), *sentences])
        nearest: str = sentences[int(np.argmax(vectors[1:] @ vectors[0]))]
        return nearest

    return RunnableLambda(read)


def help_desk(guard: Guard, records: Sequence[QuestionRecord]) -> GuardedRAG:
    """Return a chain over the articles of some questions, as a user would build it."""
    texts = dict.fromkeys((record.source or "", record.passage or "") for record in records)
    articles = [Document(f"{title}\n{text}", metadata={"source": title}) for title, text in texts]
    retriever = RunnableLambda(search_in(articles, BiEncoderScorer(), 5))
    return GuardedRAG(guard=guard, retriever=retriever, with_context=extractive_reader())


def live_answers(guard: Guard, records: Sequence[QuestionRecord]) -> list[dict[str, Any]]:
    """Ask a help desk that lacks some articles; half of the questions are about those.

    Returns:
        Per question whether its article is in the knowledge base or missing, where the guard sent
        it, the relevance of what was retrieved, and what the user gets with and without the guard.
    """
    articles = list(dict.fromkeys(record.source for record in records))
    missing = set(articles[:: len(articles) // MISSING_ARTICLES][:MISSING_ARTICLES])
    there = [record for record in records if record.source not in missing]
    gone = [record for record in records if record.source in missing]
    half = LIVE_QUESTIONS // 2
    # At even distances, so that they come from different articles.
    asked = [
        (some[place * len(some) // half].question, situation)
        for some, situation in ((there, "in the knowledge base"), (gone, "missing"))
        for place in range(half)
    ]
    chain = help_desk(guard, there)
    watching = GuardOptions(mode="shadow", deadlines=_PATIENT)
    free = chain.with_parts(guard=Guard.default(options=watching, metrics=False))
    questions = [question for question, _ in asked]
    return [
        {
            "question": question,
            "situation": situation,
            "route": guarded.decision.route.value,
            "relevance": guarded.decision.relevance,
            "guarded": guarded.answer.strip(),
            "unguarded": unguarded.answer.strip(),
        }
        for (question, situation), guarded, unguarded in zip(
            asked, chain.batch(questions), free.batch(questions), strict=True
        )
    ]


def _show(answer: Mapping[str, Any]) -> None:
    """Print what the guard decided, and the replies with and without it."""
    facts = f"its article is {answer['situation']}; relevance {answer['relevance'] or 0:.2f}"
    out.print(answer["question"], style="bold")
    out.print(f"({facts} → {answer['route']})")
    out.print(f"  with the guard:    {answer['guarded']}")
    out.print(f"  without the guard: {answer['unguarded']}\n", style="dim")


def _read_by(model: str, questions: Path, folder: Path, chosen: str) -> dict[str, Any]:
    """Let a model answer all questions, with the guard and without, and write the report."""
    out.print(f"Now {model} reads the articles, each question with its article and without …")
    settings = OokbSuite.settings(
        questions=(questions,),
        models=(model,),
        guards=("off", str(folder / chosen)),
        passage=PassageKind.TITLED,
        top_k=2,
    )
    replies = folder / "replies"
    with call_progress() as advance:
        result = run_suite(
            OokbSuite(), settings, replies, ModelChoice(""), RunOptions(on_progress=advance)
        )
    page = write_report(replies).html
    out.print(f"replies with and without the guard → {page}")
    return {"replies": asdict(result.totals), "replies_report": page}
