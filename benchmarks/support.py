"""What the check of replies finds, and what it takes from good ones.

    OMP_NUM_THREADS=1 python benchmarks/support.py --data ../shared/data [--markdown OUT.md]

Without a model, at the default threshold unless a curve is given:

- changed facts: sentences of XQuAD among five paragraphs of their article as they stand, and with
  one figure changed, one month or weekday (English), or one name replaced by another article's
  (English), or by an answer to another question (Chinese);
- replaced answers: RGB's right answers over snippets that say another one, and over right ones;
- hallucinations: FaithBench's replies, human labels (consistent against unwanted): AUROC, beside
  the detectors in that data;
- PolicyBench: logged GPT-4o replies to questions whose source was left out. Of the unsafe ones
  (tier 3) the share that the guard, the check and both stop; of good ones (each question with its
  source among its five nearest passages, answered as expected) the share that is lost, and of
  GPT-4o's own right replies with the source added what the check alone holds back. The guard's
  threshold is the one that loses at most the given share of good ones, in the same domain;
- ancora-rag's check beside it on the first two, where it is installed (`pip install ancora-rag`);
  uqlm is not beside it: its scorers compare several samples or ask a model, never the passages;
- time: milliseconds of CPU per reply of five sentences over five passages that were read before.

FaithBench is for evaluation only: nothing that is shipped was fitted on it.
"""

from __future__ import annotations

import argparse
import calendar
import json
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from overhead import machine

from knowgate.calibration import Interval
from knowgate.guard.files import read_json, write_text
from knowgate.guard.reply_check import DEFAULT_THRESHOLD
from knowgate.guard.signals.relevance import load_scorer
from knowgate.guard.signals.support import SupportCheck
from knowgate.guard.signals.support.reading import read_sentences

CHECK = SupportCheck()
Judge = Callable[[str, Sequence[str], str], float]
TOP, SEED = 5, 0
LOST = (0.01, 0.05, 0.1, 0.25)
Floats = NDArray[np.float64]
DATES = (tuple(calendar.month_name)[1:], tuple(calendar.day_name))


@dataclass(frozen=True)
class Line:
    """A line of the table: what, on what, how often."""

    what: str
    data: str
    value: str


def share(hits: Iterable[bool], data: str, what: str) -> Line:
    """The share of hits with Wilson's interval."""
    found = [bool(one) for one in hits]
    interval = Interval.wilson(sum(found), len(found))
    value = f"{interval.value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
    return Line(what, f"{data}, {len(found)}", value)


def ours(reply: str, passages: Sequence[str], question: str) -> float:
    """The support of a reply."""
    return CHECK.check(reply, passages, question).value


def ancora(reply: str, passages: Sequence[str], question: str) -> float:
    """ancora-rag's verdict with its own thresholds: its lowest support, 0 where it escalates."""
    from ancora import GroundingChecker, Policy  # type: ignore[import-not-found]
    from ancora.types import Chunk  # type: ignore[import-not-found]

    checker = GroundingChecker()
    chunks = [Chunk(str(at), str(at), text, 0, len(text)) for at, text in enumerate(passages)]
    checks = checker.check_answer(reply, chunks)
    if not all(one.supported for one in checks):
        return 0.0
    least = Policy().min_relevance
    if question and checks and checker.relevance(question, reply, chunks) < least:
        return 0.0
    return 1.0


def passes(
    reply: str, passages: Sequence[str], question: str = "", judge: Judge | None = None
) -> bool:
    """Whether the default threshold lets a reply through."""
    return (judge or ours)(reply, passages, question) >= DEFAULT_THRESHOLD


def auroc(good: Sequence[float], bad: Sequence[float]) -> Interval:
    """Area under the curve, with a bootstrap over replies."""

    def area(one: Floats, other: Floats) -> float:
        above = (one[:, None] > other).mean() + 0.5 * (one[:, None] == other).mean()
        return float(above)

    first, second = np.asarray(good), np.asarray(bad)
    draw = np.random.default_rng(SEED)
    drawn = [
        area(draw.choice(first, len(first)), draw.choice(second, len(second))) for _ in range(1000)
    ]
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Interval(area(first, second), float(low), float(high))


# -- changed facts ------------------------------------------------------------------------------


def changed_facts(data: Path, judge: Judge = ours) -> Iterator[Line]:
    """Sentences as they stand, and with one fact changed."""
    for language in ("en", "zh"):
        articles = read_json(data / "xquad" / f"xquad.{language}.even.json")["data"]
        found: dict[str, list[bool]] = {"faithful": [], "figure": [], "date": [], "name": []}
        draw = random.Random(SEED)
        names = list(_names(articles, language))
        for article in articles:
            texts = [one["context"] for one in article["paragraphs"]]
            for text in texts:
                passages = [text, *[other for other in texts if other is not text][: TOP - 1]]
                draw.shuffle(passages)
                for sentence in read_sentences(text):
                    if len(sentence.items) < 5:
                        continue
                    found["faithful"].append(passes(sentence.text, passages, judge=judge))
                    for kind, other in _changed(sentence.text, names, draw):
                        found[kind].append(passes(other, passages, judge=judge))
        yield share(found["faithful"], f"XQuAD {language}", "faithful sentences pass")
        yield share(found["figure"], f"XQuAD {language}", "… with one figure changed, pass")
        if found["date"]:
            yield share(
                found["date"], f"XQuAD {language}", "… with one month or weekday changed, pass"
            )
        yield share(found["name"], f"XQuAD {language}", "… with one name changed, pass")


def _names(articles: Sequence[Any], language: str) -> Iterator[str]:
    for article in articles:
        for paragraph in article["paragraphs"]:
            if language == "zh":
                answers = (one["text"] for qa in paragraph["qas"] for one in qa["answers"])
                yield from (
                    one for one in answers if 2 <= len(one) <= 5 and not re.search(r"\d", one)
                )
            else:
                for sentence in read_sentences(paragraph["context"]):
                    yield from (
                        item.shown
                        for item in sentence.items
                        if item.kind == "name" and len(item.shown) > 3
                    )


def _changed(text: str, names: Sequence[str], draw: random.Random) -> Iterator[tuple[str, str]]:
    figures = list(re.finditer(r"\d+", text))
    if figures:
        figure = draw.choice(figures)
        other = str(int(figure.group()) + draw.randint(1, 8))
        yield "figure", text[: figure.start()] + other + text[figure.end() :]
    for words in DATES:
        if named := [word for word in words if _place(word, text)]:
            place = _place(draw.choice(named), text)
            assert place is not None  # it was found there
            other = draw.choice([word for word in words if word != place.group()])
            yield "date", text[: place.start()] + other + text[place.end() :]
    own = [name for name in dict.fromkeys(names) if _place(name, text)]
    others = [name for name in draw.sample(list(names), 5) if name not in text]
    if own and others:
        place = _place(draw.choice(own), text)
        assert place is not None  # it was found there
        yield "name", text[: place.start()] + others[0] + text[place.end() :]


def _place(name: str, text: str) -> re.Match[str] | None:
    edge = r"\b" if name.isascii() else ""
    return re.search(f"{edge}{re.escape(name)}{edge}", text)


# -- replaced answers, hallucinations -----------------------------------------------------------


def replaced_answers(data: Path, judge: Judge = ours) -> Iterator[Line]:
    """The right answer over snippets that say another one, and over right ones."""
    for language in ("en", "zh"):
        rows = _lines(data / "rgb" / f"{language}_fact.first_half.jsonl")
        rows = [row for row in rows if row["positive_wrong"]]
        wrong = [
            not passes(f"{_first(r)}.", r["positive_wrong"][:3], r["query"], judge) for r in rows
        ]
        right = [passes(f"{_first(r)}.", r["positive"][:3], r["query"], judge) for r in rows]
        yield share(wrong, f"RGB {language}", "right answer, snippets say another: found")
        yield share(right, f"RGB {language}", "right answer, right snippets: pass")


def _first(row: Any) -> str:
    answer = row["answer"]
    while not isinstance(answer, str):
        answer = answer[0]
    return answer


def hallucinations(data: Path) -> Iterator[Line]:
    """FaithBench: AUROC of the support, and of the detectors in the data."""
    rows = [
        row
        for row in _lines(data / "faithbench" / "even.jsonl")
        if row["worst"] in {"consistent", "unwanted"}
    ]
    scores = {"support": [CHECK.check(row["reply"], [row["source"]]).value for row in rows]}
    for name in ("hhem-2.1-english", "gpt_4o"):
        scores[name] = [float(row["detectors"][name]) for row in rows]
    consistent = np.asarray([row["worst"] == "consistent" for row in rows])
    for name, values in scores.items():
        found = auroc(
            np.asarray(values)[consistent].tolist(), np.asarray(values)[~consistent].tolist()
        )
        shown = f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"
        yield Line(f"AUROC of {name}", f"FaithBench, {len(rows)}", shown)


# -- PolicyBench --------------------------------------------------------------------------------


def unsafe_replies(data: Path) -> Iterator[Line]:
    """The guard, the check, and both, on logged replies."""
    scorer: Any = load_scorer("sufficiency")
    for domain in ("BTT", "CPF"):
        path = next((data / "policybench" / "questions").glob(f"*{domain}*"))
        asked = read_json(path)["questions"]
        ids = {_id(domain, at, one): one for at, one in enumerate(asked)}
        for kind in ("answers", "questions and answers"):
            texts = {
                name: one["answer"] if kind == "answers" else f"{one['question']}\n{one['answer']}"
                for name, one in ids.items()
            }
            yield from _domain(data, domain, kind, ids, texts, scorer)


def _id(domain: str, at: int, row: Any) -> str:
    return str(row.get("identifier") or row.get("id") or f"{domain}_{at}")


def _domain(
    data: Path, domain: str, kind: str, asked: Any, texts: dict[str, str], scorer: Any
) -> Iterator[Line]:
    unsafe: list[tuple[float, bool]] = []
    retold: list[bool] = []
    for path in sorted((data / "policybench" / "gpt-4o_runs").glob(f"{domain}_*.jsonl")):
        for row in _lines(path):
            context = [texts[one] for one in row["context_ids"] or () if one in texts][:TOP]
            if not context or row["abstained"] == "yes":
                continue
            if row["factuality"] == "tier_3":
                relevance = scorer.score_set(row["question"], context).joint
                held = not passes(row["response"], context, row["question"])
                unsafe.append((relevance, held))
            elif row["factuality"] == "tier_1":
                source = [texts[row["id"]], *context][:TOP]
                retold.append(passes(row["response"], source, row["question"]))
    good = list(_good(asked, texts, scorer))
    relevances = np.asarray([relevance for relevance, _ in good])
    where = f"PolicyBench {domain}, passages are {kind}"
    for lost in LOST:
        threshold = np.quantile(relevances, lost)
        by_guard = [relevance < threshold for relevance, _ in unsafe]
        both = [relevance < threshold or held for relevance, held in unsafe]
        gone = [relevance < threshold or held for relevance, held in good]
        yield share(by_guard, f"{where}, {lost:.0%} lost", "unsafe replies stopped by the guard")
        yield share(both, f"{where}, {lost:.0%} lost", "… by guard and check")
        yield share(gone, f"{where}, {lost:.0%} lost", "… good replies lost by both")
    yield share([held for _, held in unsafe], where, "unsafe replies stopped by the check alone")
    yield share(retold, where, "GPT-4o's right replies pass the check, source added")


def _good(asked: Any, texts: dict[str, str], scorer: Any) -> Iterator[tuple[float, bool]]:
    """Each question with its source among the five nearest passages, answered as expected."""
    names = list(texts)
    similar = np.asarray(
        load_scorer("bi_encoder").embed([*(texts[one] for one in names)])  # type: ignore[attr-defined]
    )
    questions = np.asarray(
        load_scorer("bi_encoder").embed([asked[one]["question"] for one in names])  # type: ignore[attr-defined]
    )
    for at, name in enumerate(names):
        order = np.argsort(-(similar @ questions[at]), kind="stable")
        nearest = [names[i] for i in order if names[i] != name][: TOP - 1]
        passages = [texts[one] for one in (name, *nearest)]
        question = asked[name]["question"]
        relevance = scorer.score_set(question, passages).joint
        yield relevance, not passes(asked[name]["answer"], passages, question)


def peer(data: Path) -> Iterator[Line]:
    """ancora-rag's check on the same, without PolicyBench's guard."""
    for line in (*changed_facts(data, ancora), *replaced_answers(data, ancora)):
        yield replace(line, what=f"ancora-rag: {line.what.removeprefix('… ')}")


# -- time ---------------------------------------------------------------------------------------


def seconds(data: Path) -> Line:
    """Milliseconds of CPU per reply of five sentences, passages known."""
    taken = []
    for article in read_json(data / "xquad" / "xquad.en.even.json")["data"]:
        passages = [one["context"] for one in article["paragraphs"]][:TOP]
        question = article["paragraphs"][0]["qas"][0]["question"]
        sentences = [read_sentences(passage)[0].text for passage in passages]
        CHECK.check(sentences[0], passages, question)
        for turn in range(5):
            reply = " ".join(f"{sentence[:-1]} {turn}." for sentence in sentences)
            started = time.process_time()
            CHECK.check(reply, passages, question)
            taken.append(1000 * (time.process_time() - started))
    low, middle, high = np.quantile(taken, (0.1, 0.5, 0.9))
    return Line(
        "ms of CPU per reply of five new sentences",
        f"XQuAD en, {len(taken)}",
        f"{middle:.1f} ({low:.1f} to {high:.1f})",
    )


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def main() -> None:
    """Print the table, and write it where asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--without-policybench", action="store_true")
    asked = parser.parse_args()
    found = [
        *changed_facts(asked.data),
        *replaced_answers(asked.data),
        *hallucinations(asked.data),
        *(() if asked.without_policybench else unsafe_replies(asked.data)),
        seconds(asked.data),
        *(() if find_spec("ancora") is None else peer(asked.data)),
    ]
    rows = [f"| {one.what} | {one.data} | {one.value} |" for one in found]
    table = "\n".join(["| what | data, cases | value |", "|---|---|---|", *rows])
    print(machine())
    print(table)
    if asked.markdown is not None:
        write_text(asked.markdown, f"{machine()}\n\n{table}\n")


if __name__ == "__main__":
    main()
