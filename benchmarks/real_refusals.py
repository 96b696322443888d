"""Abstention detection on the replies of a real model, SmolLM2, told to answer from passages only.

    python benchmarks/real_refusals.py ask --data xquad.en.json --replies replies.jsonl
    python benchmarks/real_refusals.py measure --errors

`ask` puts 100 XQuAD questions to the model three times each: with the sentences that hold the
answer, with those of another article, and with none. The wording of the instruction takes turns.
Replies are appended as they come, and those that are there are not asked for again. `measure`
compares the bundled detector and the published rules with the labels of the replies that are
stored with the tests; its rules for labelling stand in the file beside them.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from knowgate.guard.abstention import AbstentionDetector
from knowgate.guard.abstention.detector import load_rule
from knowgate.guard.files import write_json
from knowgate.offline_eval.judging.chance_agreement import cohens_kappa

ROOT = Path(__file__).resolve().parents[1]
LABELLED = ROOT / "tests" / "guard" / "abstention" / "smollm2_replies.jsonl"
QUESTIONS, TOKENS, BATCH, SEED = 100, 32, 10, 5
STYLES = {
    "passages": "Answer the question only from the passages below. If they do not contain the "
    "answer, say that you don't know.\n\nPassages:\n{context}\n\nQuestion: {question}\nAnswer:",
    "context": "Use only the context to answer. If the context does not answer the question, "
    'reply "I don\'t know".\n\nContext: {context}\n\nQuestion: {question}',
    "explain": "{context}\n\nQuestion: {question}\nIf the text above does not contain the answer, "
    "explain that you cannot answer from it.",
}
EMPTY = "(no passages were found)"
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"])")


def sentences_around(context: str, start: int, most: int = 90) -> str:
    """The sentence that holds character `start` and its neighbours, up to `most` words."""
    spans, at = [], 0
    for part in _SENTENCE.split(context):
        begin = context.index(part, at)
        at = begin + len(part)
        spans.append((begin, at))
    home = next(i for i, (_, end) in enumerate(spans) if start < end)
    first = last = home
    while True:
        wider = [(first - 1, last)] * (first > 0) + [(first, last + 1)] * (last + 1 < len(spans))
        fitting = [
            (low, high)
            for low, high in wider
            if len(context[spans[low][0] : spans[high][1]].split()) <= most
        ]
        if not fitting:
            return context[spans[first][0] : spans[last][1]]
        first, last = fitting[0]


def tasks(path: Path) -> Iterator[dict[str, str]]:
    """Three prompts a question: sufficient, insufficient and no passages."""
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    asked = [
        (number, paragraph["context"], question)
        for number, article in enumerate(articles)
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
    Random(SEED).shuffle(asked)
    chosen = asked[:QUESTIONS]
    for at, (article, context, question) in enumerate(chosen):
        style = list(STYLES)[at % len(STYLES)]
        start = question["answers"][0]["answer_start"]
        other = next(item for item in chosen[at + 1 :] + chosen[:at] if item[0] != article)
        wrong = sentences_around(other[1], other[2]["answers"][0]["answer_start"])
        contexts = {
            "sufficient": sentences_around(context, start),
            "insufficient": wrong,
            "empty": EMPTY,
        }
        for kind, text in contexts.items():
            prompt = STYLES[style].format(context=text, question=question["question"])
            yield {"id": question["id"], "style": style, "passages": kind, "prompt": prompt}


def ask(data: Path, replies: Path) -> None:
    """Append the replies that are not there yet."""
    import torch

    from knowgate.adapters.huggingface import HuggingFaceLM

    torch.set_num_threads(1)
    done = set()
    if replies.exists():
        lines = replies.read_text(encoding="utf-8").splitlines()
        done = {(row["id"], row["passages"]) for row in map(json.loads, lines)}
    left = [task for task in tasks(data) if (task["id"], task["passages"]) not in done]
    lm = HuggingFaceLM.bundled("smollm2", max_new_tokens=TOKENS)
    with replies.open("a", encoding="utf-8") as output:
        for start in range(0, len(left), BATCH):
            batch = left[start : start + BATCH]
            made = lm.generate([task["prompt"] for task in batch])
            for task, [reply] in zip(batch, made, strict=True):
                row = {name: task[name] for name in ("id", "style", "passages")}
                row["reply"] = reply.text.strip()
                output.write(json.dumps(row, ensure_ascii=False) + "\n")
            output.flush()


def measure(labelled: Path, *, errors: bool) -> dict[str, Any]:
    """Kappa of each rule with the labels, on each half, with intervals over questions."""
    rows = [json.loads(line) for line in labelled.read_text(encoding="utf-8").splitlines()]
    found: dict[str, Any] = {}
    for half in ("seen", "held_out"):
        part = [row for row in rows if row["half"] == half]
        labels = [row["abstained"] for row in part]
        print(f"{half}: {len(part)} replies, {sum(labels)} abstain")
        rules = {"detector": AbstentionDetector()}
        rules |= {name: load_rule(name) for name in ("uniknow", "uaqfact")}  # type: ignore[misc]
        for name, rule in rules.items():
            flags = [v.abstained for v in rule.detect_many([row["reply"] for row in part])]
            kappa = cohens_kappa(
                [str(label) for label in labels],
                [str(flag) for flag in flags],
                groups=[row["id"] for row in part],
            )
            wrong = [row for row, flag in zip(part, flags, strict=True) if flag != row["abstained"]]
            false = sum(not row["abstained"] for row in wrong)
            missed = len(wrong) - false
            found[f"{name}, {half}"] = kappa.to_dict() | {"missed": missed, "false": false}
            print(
                f"  {name:10} kappa {kappa.value:.3f} [{kappa.low:.3f}, {kappa.high:.3f}]"
                f"  missed {missed}  false {false}"
            )
            if errors and name == "detector":
                for row in wrong:
                    print("   ", "missed:" if row["abstained"] else "false: ", row["reply"])
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Ask the model, or measure the stored replies."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parts = parser.add_subparsers(dest="part", required=True)
    asking = parts.add_parser("ask", help="generate the replies; resumable")
    asking.add_argument("--data", type=Path, required=True, help="XQuAD's English file")
    asking.add_argument("--replies", type=Path, required=True, help="JSON lines, appended to")
    measuring = parts.add_parser("measure", help="compare detectors with the labels")
    measuring.add_argument("--labelled", type=Path, default=LABELLED, help="labelled replies")
    measuring.add_argument("--errors", action="store_true", help="print every disagreement")
    measuring.add_argument("--json", type=Path, help="also write the numbers here")
    options: Any = parser.parse_args(arguments)
    if options.part == "ask":
        ask(options.data, options.replies)
        return
    found = measure(options.labelled, errors=options.errors)
    if options.json:
        write_json(options.json, found)


if __name__ == "__main__":
    main()
