"""How often does the premise checker find a false premise, and how often one that is not there?

    OMP_NUM_THREADS=1 python benchmarks/answerability.py --data ../shared/data [--set FOLDER]

No language model, no network; the same numbers every time.

1. UAQFact: per language, type and kind the share of questions found unanswerable, with the
   question's own clues as passages and with the five nearest facts of the whole set (`retrieved`);
   in the open world (the default) and in the closed one, in which lists and sentences tell all.
   `found` is of unanswerable questions, `false alarm` of answerable ones.
2. Microworld: questions made from its graph by `knowgate kg generate`, with triples, clues, or the
   world's documents about their subjects as passages.
3. Ordinary questions whose passage answers them: every finding is a false alarm.
4. A model that never abstains, with and without a premise check in front of it.
5. Ordinary questions written to be mistaken (`ordinary_questions.jsonl`), by fault: all have an
   answer, or one that their passages leave open.

`--set` measures another folder in the published layout, such as the full set, in part 1 and 4.
"""

from __future__ import annotations

import argparse
import json
import lzma
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from knowgate.calibration import Interval
from knowgate.guard import Guard, GuardOptions, Policy
from knowgate.guard.contracts import Premise
from knowgate.guard.signals.answerability import PremiseChecker
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.data.graph.generation import generate_questions
from knowgate.offline_eval.data.graph.items import UaqItem
from knowgate.offline_eval.data.graph.layout import UaqData
from knowgate.offline_eval.data.graph.loading import load_graph
from knowgate.offline_eval.data.graph.properties import GenerationSettings
from knowgate.offline_eval.suites import read_suite_run, run_suite
from knowgate.offline_eval.suites.parts import System
from knowgate.offline_eval.suites.uaqfact._asking import Form, clue_facts, fact_retriever
from knowgate.offline_eval.suites.uaqfact._suite import UaqFact
from knowgate.offline_eval.testbed import World, default_world

Passages = Callable[[UaqItem], Sequence[str]]
# The published set reaches up to that year.
PUBLISHED = 2024
WORLDS = {
    "open": PremiseChecker(now=PUBLISHED),
    "closed": PremiseChecker(closed_world=True, now=PUBLISHED),
}
NEVER_DECLINES = "The answer is beyond doubt Zzyzx."


def verdicts(items: Iterable[UaqItem], passages: Passages, checker: PremiseChecker) -> Counter[str]:
    """Counts by "language/type/kind" and by "language/type/kind/premise"."""
    counts: Counter[str] = Counter()
    for item in items:
        found = checker.detect(item.question, list(passages(item)))
        for language in (item.language, "all"):
            for question_type in (item.type.value, "all"):
                key = f"{language}/{question_type}/{item.kind.value}"
                counts[key] += 1
                counts[f"{key}/{found.premise.value}"] += 1
    return counts


def table(name: str, counts: Counter[str]) -> None:
    """Print one line per language and type."""
    print(f"\n{name}\n")
    print("| language | type | n ua | n ab | found | false alarm | decided ua | decided ab |")
    print("|---|---|---|---|---|---|---|---|")
    for part in sorted({key.rsplit("/", 1)[0] for key in counts if key.count("/") == 2}):
        language, question_type = part.split("/")
        ua, ab = counts[f"{part}/ua"], counts[f"{part}/ab"]
        if not ua or not ab:
            continue
        found = counts[f"{part}/ua/{Premise.UNANSWERABLE}"] / ua
        alarm = counts[f"{part}/ab/{Premise.UNANSWERABLE}"] / ab
        decided = [
            1 - counts[f"{part}/{kind}/{Premise.UNDECIDED}"] / n
            for kind, n in (("ua", ua), ("ab", ab))
        ]
        print(
            f"| {language} | {question_type} | {ua} | {ab} | {found:.3f} | {alarm:.4f} | "
            f"{decided[0]:.3f} | {decided[1]:.3f} |"
        )


def published(folder: Path) -> None:
    """Part 1."""
    items = UaqData.read(folder).items
    nearest = fact_retriever(items, 5)
    retrieved = {item.key: nearest(item) for item in items}
    forms: dict[str, Passages] = {
        "clues": clue_facts,
        "retrieved, k=5": lambda item: retrieved[item.key],
    }
    for form, passages in forms.items():
        for world, checker in WORLDS.items():
            started = time.perf_counter()
            counts = verdicts(items, passages, checker)
            each = (time.perf_counter() - started) / len(items)
            table(f"UAQFact, {form}, {world} world ({1000 * each:.2f} ms a question)", counts)


def microworld(per_type: int, seed: int) -> None:
    """Part 2."""
    world = default_world()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "microworld.nt"
        path.write_text(world.to_ntriples(), encoding="utf-8")
        graph = load_graph(path)
    items = generate_questions(graph, GenerationSettings(per_type=per_type, seed=seed)).data.items
    forms: dict[str, Passages] = {
        "triples": clue_facts,
        "clues": lambda item: [f"{clue.question} {', '.join(clue.answers)}" for clue in item.clues],
        "documents": lambda item: documents(world, item),
    }
    for form, passages in forms.items():
        for name, checker in WORLDS.items():
            table(f"Microworld, {form}, {name} world", verdicts(items, passages, checker))


def documents(world: World, item: UaqItem) -> list[str]:
    """What the world's documents say about the subjects of the facts behind a question."""
    ids = {entity.name: entity.id for entity in world.entities}
    named = dict.fromkeys(ids[one.subject] for one in item.triples if one.subject in ids)
    found = (next(iter(world.facts_about(name)), None) for name in named)
    return [world.document_for(fact).text for fact in found if fact is not None]


def ordinary(data: Path) -> Iterator[tuple[str, str, str]]:
    """(set, question, passage that answers it)."""
    for language in ("en", "zh"):
        path = data / "xquad" / f"xquad.{language}.even.json"
        for article in json.loads(path.read_text("utf-8"))["data"]:
            for paragraph in article["paragraphs"]:
                for asked in paragraph["qas"]:
                    yield f"xquad {language}", asked["question"], paragraph["context"]
    with lzma.open(data / "sufficiency_pack" / "dev.jsonl.xz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row["label"] == 1:
                yield "sufficiency pack", row["question"], row["passage"]


def false_alarms(data: Path) -> None:
    """Part 3."""
    print("\nOrdinary questions with the passage that answers them\n")
    print("| set | questions | false alarms, open | closed |\n|---|---|---|---|")
    counts: Counter[tuple[str, str]] = Counter()
    for name, question, passage in ordinary(data):
        counts[name, "n"] += 1
        for world, checker in WORLDS.items():
            found = checker.detect(question, [passage])
            counts[name, world] += found.premise is Premise.UNANSWERABLE
    for name in dict.fromkeys(name for name, _ in counts):
        print(
            f"| {name} | {counts[name, 'n']} | {counts[name, 'open']} | {counts[name, 'closed']} |"
        )


def mistakable() -> None:
    """Part 5."""
    path = Path(__file__).with_name("ordinary_questions.jsonl")
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    print(f"\n{len(rows)} ordinary questions written to be mistaken\n")
    print("| world | false alarms | by fault |\n|---|---|---|")
    for world, checker in WORLDS.items():
        found = [checker.detect(row["question"], row["passages"]) for row in rows]
        faults = Counter(one.fault.value for one in found if one.fault is not None)
        told = ", ".join(f"{fault} {count}" for fault, count in sorted(faults.items()))
        print(f"| {world} | {faults.total()} | {told} |")


def premise_guard(checker: PremiseChecker) -> Guard:
    """A guard that checks the premise alone: any passage is relevant enough."""
    scorer = LexicalScorer()
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.0).with_veto(checker)
    options = GuardOptions(on_error="raise")
    return Guard(policy, scorer=scorer, vetoes=[checker], options=options, metrics=False)


def system(folder: Path, forms: tuple[Form, ...]) -> None:
    """Part 4."""
    model = ScriptedLanguageModel(default=NEVER_DECLINES)
    guards = {
        "premise": premise_guard(WORLDS["closed"]),
        "premise, open world": premise_guard(WORLDS["open"]),
    }
    suite = UaqFact()
    settings = suite.settings(data=folder, tasks=(1, 3), forms=forms)
    asked = [System("model", model)]
    asked += [System(name, model, guard) for name, guard in guards.items()]
    with tempfile.TemporaryDirectory() as out:
        run = Path(out) / "run"
        run_suite(suite, settings, run, asked)
        lines = suite.score(read_suite_run(run, suite)).strict
    print("\nA model that never abstains\n")
    print("| system | form | language | type | R_ua | R_ab | RΔ |\n|---|---|---|---|---|---|---|")
    for line in lines:
        names = [line[name] for name in ("system", "form", "language", "type")]
        shown = " | ".join((*names, *(_rate(line[name]) for name in ("r_ua", "r_ab", "r_delta"))))
        print(f"| {shown} |")


def _rate(rate: Interval) -> str:
    return "–" if rate.value is None else f"{rate.value:.3f}"


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--set", type=Path, default=None, help="published layout; DATA/uaqfact")
    parser.add_argument("--per-type", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parts", default="1,2,3,4,5")
    chosen = parser.parse_args()
    folder = chosen.set or chosen.data / "uaqfact"
    for part in chosen.parts.split(","):
        if part == "1":
            published(folder)
        elif part == "2":
            microworld(chosen.per_type, chosen.seed)
        elif part == "3":
            false_alarms(chosen.data)
        elif part == "5":
            mistakable()
        else:
            system(folder, ("clue", "retrieved"))


if __name__ == "__main__":
    main()
