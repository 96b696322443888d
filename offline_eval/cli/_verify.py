"""`knowgate verify`: how far logged replies rest on their passages, and a certified threshold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel, ConfigDict, Field

from ...calibration.risk.support import fit_support
from ...guard.artefacts import SupportPolicy, require_fingerprint
from ...guard.errors import InputError
from ...guard.files import atomic_writer
from ...guard.policy import Policy
from ...guard.read_models import read_models
from ...guard.reply_check import DEFAULT_THRESHOLD
from ...guard.signals.support import Support, SupportCheck
from ._console import json_line, out, print_figures, progress_bar, tell
from ._options import Pairs, prints_figures

_HINT = (
    'each line needs "passages" (a list of texts) and "reply" (text); "question" (text) and '
    '"supported" (true or false, what a person or judge found) may be there'
)
_DELTA = 0.1
# As written, and as the check calls it.
_SENTENCE = {
    "text": "text", "support": "support", "passage": "passage", "start": "passage_start",
    "end": "passage_end", "missing": "missing",
}  # fmt: skip


class CertifyOptions(Pairs):
    """What is promised of delivered replies: risk=0.1,delta=0.05,out=policy.json."""

    risk: float | None = Field(None, gt=0, lt=1)
    delta: float | None = Field(None, gt=0, lt=1)
    out: Path | None = None


class _Line(BaseModel):
    """A reply with its passages; other fields are left alone, an `id` is passed on."""

    model_config = ConfigDict(extra="ignore", strict=True)

    passages: list[str | dict[str, Any]]
    reply: str
    question: str = ""
    supported: bool | None = None
    id: str | int | None = None


@prints_figures
def verify(
    *,
    input_path: Path,
    output: Path,
    policy: Path | None = None,
    certify: CertifyOptions,
) -> None:
    """Check logged replies against the passages that they were generated from.

    Without a model: figures, names and quotations of each sentence must stand in the passages,
    and its words near each other. Lines may come from any system. Each result has `support` (0 to
    1, of the sentence with the least), `supported`, and `sentences`: the text, its support (null
    for one that says nothing), and the passage with the characters that carry it.

    With `--certify`, a threshold is found from replies with a known verdict, so that at most a
    share `risk` of the replies that are delivered are unsupported; exit code 3 if there is none.

    Example: `knowgate verify --input replies.jsonl --output verified.jsonl`

    Args:
        input_path: JSON lines: {"question", "passages", "reply"}; "question" may be missing,
            "supported" says what a person found. Or the folder of a run of `eval ookb`, where
            replies that were judged or labelled wrong count as unsupported.
        output: JSON lines: {"support", "supported", "sentences"} for each line, in order.
        policy: Use the threshold for replies in this policy.
        certify: risk=0.1,delta=0.05,out=NEW.json: find the threshold, and write it into a copy of
            the policy. Together with the policy's own promise, both hold with probability 1
            minus the sum of their δ; without delta, that sum is 0.1 where it can be.
    """
    lines = list(_read(input_path))
    if not lines:
        raise InputError("holds no replies", where=str(input_path), hint=_HINT)
    base = None if policy is None else Policy.load(policy)
    check = SupportCheck()
    found = []
    with progress_bar("checking replies") as advance:
        for done, line in enumerate(lines, start=1):
            found.append(check.check(line.reply, line.passages, line.question))
            advance(done, len(lines))
    values, verdicts = [one.value for one in found], [line.supported for line in lines]
    bound = None if base is None else base.support
    if bound is not None and certify.risk is None:
        hint = "it belongs to a check with a model: certify a threshold for this one"
        require_fingerprint(bound.check, check.fingerprint, "support check", hint)
    if certify.risk is None and (certify.out or certify.delta) is not None:
        raise InputError("names no risk", where="--certify", hint="write risk=0.1,out=NEW.json")
    if certify.out is not None and base is None:
        raise InputError("needs --policy", where="--certify out", hint="name the guard's policy")
    if certify.risk is not None:
        labelled = [at for at, verdict in enumerate(verdicts) if verdict is not None]
        if not labelled:
            raise InputError("no reply has a verdict", where=str(input_path), hint=_HINT)
        bound = fit_support(
            [values[at] for at in labelled],
            [not verdicts[at] for at in labelled],
            # Replies without a question stand for one each.
            [lines[at].question or at for at in labelled],
            check.fingerprint,
            risk=certify.risk,
            delta=certify.delta or _left(base),
        )
    # Above 1 where nothing is delivered.
    threshold = DEFAULT_THRESHOLD
    if bound is not None:
        threshold = 2.0 if bound.threshold is None else bound.threshold
    with atomic_writer(output) as stream:
        for line, support in zip(lines, found, strict=True):
            stream.write(json_line(_result(line, support, threshold)))
    pairs = Counter(
        (value >= threshold, said) for value, said in zip(values, verdicts, strict=True)
    )
    figures = {
        "replies": len(lines),
        "unsupported": sum(value < threshold for value in values),
        "threshold": None if threshold > 1 else threshold,
        "certified": bound is not None and bound.certified,
        "labelled": len(lines) - verdicts.count(None),
        "unsupported_delivered": pairs[True, False],
        "supported_held_back": pairs[False, True],
    }
    note = _write(certify, base, bound)
    print_figures({**figures, "note": note, "output": output})
    tell("verified", figures, output, note)
    if bound is not None and bound.threshold is None:
        raise typer.Exit(3)


def _read(path: Path) -> Iterator[_Line]:
    """The lines of a file; or the replies of a run, with the verdicts of judges and people."""
    if not path.is_dir():
        yield from (line for _, line in read_models(path, _Line, hint=_HINT))
        return
    from ..judging.rated import Evidence

    for reply in Evidence(path).replies:
        if (passages := reply.passages) is None:
            continue
        yield _Line(
            passages=[*passages],
            reply=reply.row.response or "",
            question=reply.question.question,
            supported=None if reply.wrong is None else not reply.wrong,
            id=reply.row.reply_id,
        )


def _result(line: _Line, support: Support, threshold: float) -> dict[str, Any]:
    sentences = [
        {name: one[field] for name, field in _SENTENCE.items()}
        for one in support.to_dict(line.reply)["sentences"]
    ]
    own = {"id": line.id} if "id" in line.model_fields_set else {}
    told = {"support": support.value, "supported": support.value >= threshold}
    return {**own, **told, "sentences": sentences}


def _left(base: Policy | None) -> float:
    """What the policy's own promise leaves of δ = 0.1, or half as much."""
    taken = 0.0 if base is None or base.guarantee is None else base.guarantee.delta
    return _DELTA - taken if taken < _DELTA - 1e-9 else _DELTA / 2


def _write(asked: CertifyOptions, base: Policy | None, bound: SupportPolicy | None) -> str:
    """Write the policy where asked for; return what is promised."""
    if bound is None:
        return ""
    note = bound.note
    promise = None if base is None else base.guarantee
    if bound.certified and promise is not None and promise.certified:
        together = 1 - promise.delta - (bound.delta or 0.0)
        note += f"; this and the policy's promise both hold with confidence {together:.0%}"
        bound = bound.model_copy(update={"note": note})
    if asked.out is not None and base is not None and bound.certified:
        base.model_copy(update={"support": bound}).save(asked.out)
        out.print(f"policy → {asked.out}")
    return note
