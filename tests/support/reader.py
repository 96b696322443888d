"""What the pages of the documentation take for the reader's own: files, runs, a module."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from langchain_core.documents import Document

from knowgate import Guard, Policy
from knowgate.guard import DecisionLog, GuardOptions
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.offline_eval.data.graph.layout import write_layout
from knowgate.offline_eval.judging.labelling.session import LabelSession
from tests.offline_eval.cli.commands import read_lines, write_lines
from tests.offline_eval.data.formats.knowornot_experiments import (
    asked,
    metadata,
    replied,
    spec,
    store,
    verdict,
)
from tests.offline_eval.data.graph.graphs import WikidataLike
from tests.offline_eval.data.graph.layout_questions import small_set
from tests.offline_eval.judging.labelling.toy_replies import toy_run
from tests.offline_eval.suites.ookb.toy import write_toy_questions
from tests.support.pair_models import write_pair_model

_QUESTIONS = 30


def write_files(folder: Path, knowgate: Callable[[str], None]) -> None:
    """Write what the commands of the pages read.

    Args:
        folder: the working directory.
        knowgate: runs a line of a console there.
    """
    for file in ("kb.jsonl", "questions.jsonl", "kb/diverse.jsonl"):
        (folder / file).parent.mkdir(exist_ok=True)
        write_toy_questions(folder / file, _QUESTIONS)
    (folder / "docs").mkdir()
    rules = "The limit in a tunnel must be 50 km/h. The fine for parking must be $70.\n"
    (folder / "docs/rules.txt").write_text(rules, encoding="utf-8")
    hours = "The library must close at 9 pm. The museum must open at 10 am.\n"
    (folder / "docs/hours.txt").write_text(hours, encoding="utf-8")
    asked_for = {"question": "When does the library open?"}
    passages = ["The library opens at nine."]
    write_lines(folder / "pairs.jsonl", [{**asked_for, "passages": passages}])
    write_lines(folder / "replies.jsonl", [{**asked_for, "response": passages[0]}])
    write_lines(folder / "passages.jsonl", [{"text": passages[0]}])
    questions = read_lines(folder / "kb.jsonl")
    polite = 'name = "politeness"\noutcomes = ["polite", "rude"]\nprompt = "politeness.txt"\n'
    (folder / "politeness.toml").write_text(polite, encoding="utf-8")
    (folder / "politeness.txt").write_text("Is the reply polite?", encoding="utf-8")
    write_lines(folder / "live.jsonl", [{"question": row["question"]} for row in questions])
    knowgate("knowgate measure --questions kb.jsonl --out run")
    knowgate("knowgate calibrate --run run --risk 0.2 --out policy.json")
    for copy in ("runs/first", "last-release"):
        shutil.copytree(folder / "run", folder / copy)
    replies = toy_run(folder / "replies")
    for annotator in ("anna", "bob"):
        session = LabelSession.annotate(replies, annotator, size=len(replies.replies))
        for position in range(len(session)):
            session.label(position, "abstention", "no" if annotator == "anna" else "yes")
            if annotator == "anna":
                session.label(position, "factuality", "tier_1")
    _write_logs(folder, [row["question"] for row in questions])
    knowgate("knowgate apply --policy policy.json --input signals.jsonl --output decisions.jsonl")
    _write_logged_replies(folder)
    _write_documents_of_others(folder)


def _write_logs(folder: Path, questions: list[str]) -> None:
    """Logs of decisions, labels and feedback on them, and records to calibrate on."""
    scorer = LexicalScorer()
    policy = Policy.for_scorer(scorer, threshold=0.5)
    for name, mode in (("decisions", "shadow"), ("enforced", "enforce")):
        options, log = GuardOptions(mode=mode), DecisionLog(folder / name)
        guard = Guard(policy, scorer=scorer, options=options, observers=[log], metrics=False)
        for number, question in enumerate(questions):
            guard.decide(question, [question] if number % 3 else ["Bread is baked at night."])
    labels = [{"question": text, "answerable": True, "right": True} for text in questions[:20]]
    write_lines(folder / "labels.jsonl", labels)
    write_lines(folder / "feedback.jsonl", [{"route": "follow_context", "right": True}] * 20)
    signals = [{"relevance": 0.9 if i % 3 else 0.1, "confidence": None} for i in range(300)]
    write_lines(folder / "signals.jsonl", signals)
    records = [
        {
            "question_id": f"q{i}",
            "group": f"page {i // 2}",
            "relevance": 0.95 if i % 3 else 0.2,
            "confidence": 0.8 if i % 2 else 0.3,
            "context_right": i % 3 != 0,
            "closed_book_right": i % 2 == 1,
        }
        for i in range(300)
    ]
    for file in ("records.jsonl", "newer.jsonl"):
        write_lines(folder / file, records)


def _write_logged_replies(folder: Path) -> None:
    """Two knowledge bases in KnowOrNot's format, and what a model replied."""
    for base in ("BTT", "CPF"):
        questions = [
            {
                "identifier": f"{base}_{i}",
                "question": f"When does pool {i} open?",
                "answer": f"At {i}.",
            }
            for i in range(4)
        ]
        store(folder / f"{base}.json", {"knowledge_base_identifier": base, "questions": questions})
        logged = [
            {"id": row["identifier"], "response": row["answer"], "contexts": [row["answer"]]}
            for row in questions
        ]
        (folder / "gpt-4o_runs").mkdir(exist_ok=True)
        write_lines(folder / f"gpt-4o_runs/{base}_BASIC_RAG_basic.jsonl", logged)


def _write_documents_of_others(folder: Path) -> None:
    """A reranker, public data in small, a graph, and documents of KnowOrNot."""
    write_pair_model(folder / "reranker", "BertForSequenceClassification", num_labels=1)
    for language in ("en", "zh"):
        write_layout(small_set(language), folder / "uaqfact/1.0")
    (folder / "conflictqa").mkdir()
    answers = [{"text": name, "evidence": f"{name} runs it."} for name in ("Ann Li", "Bo Orth")]
    towns = [
        {"id": str(i), "question": f"Who runs town {i}?", "answers": answers, "belief": "Ann Li"}
        for i in range(4)
    ]
    write_lines(folder / "conflictqa/towns.jsonl", towns)
    (folder / "graph.nt").write_text(WikidataLike().text(), encoding="utf-8")
    # N-Triples are Turtle, too.
    (folder / "graph.nt").rename(folder / "graph.ttl")
    question = asked(0, [1, 2])
    reply = replied(question, "It is red.")
    judged = {
        "path_to_store": "evaluated.json",
        "experiment_metadata": metadata(),
        "evaluation_metadata": [spec("abstention")],
        "responses": [{"llm_response": reply, "evaluations": [verdict("abstention", "no")]}],
    }
    store(folder / "input.json", {"metadata": metadata(), "questions": [question]})
    store(folder / "output.json", {"metadata": metadata(), "responses": [reply]})
    store(folder / "evaluated.json", judged)


class _Exporter:
    """Takes spans and sends them nowhere."""

    def export(self, spans: object) -> None:
        """Take spans."""

    def shutdown(self) -> None:
        """End."""


def modules() -> dict[str, ModuleType]:
    """Modules that are not installed: an application, and the exporter of OpenTelemetry.

    `mypkg.app` and `app` have a `chain` that retrieves from kb.jsonl.
    """
    made = {name: ModuleType(name) for name in ("mypkg", "mypkg.app", "app")}
    for module in made.values():
        vars(module)["chain"] = retrieve
    exporter = "opentelemetry.exporter"
    for part in ("", ".otlp", ".proto", ".http", ".trace_exporter"):
        exporter += part
        made[exporter] = ModuleType(exporter)
    vars(made[exporter])["OTLPSpanExporter"] = _Exporter
    return made


def retrieve(question: str, k: int = 3) -> list[Document]:
    """The answers of kb.jsonl that share most words with the question."""
    asked_for = set(question.lower().strip("?").split())
    answers = [row["answer"] for row in read_lines(Path("kb.jsonl"))]
    answers.sort(key=lambda text: -len(asked_for & set(text.lower().split())))
    return [Document(text) for text in answers[:k]]
