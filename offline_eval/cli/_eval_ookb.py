"""What `knowgate eval ookb` does where systems are under test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from ...guard.engine import BiEncoderScorer
from ...guard.errors import InputError
from ..data import PassageKind
from ..run import CaseKind
from ..suites.ookb import (
    Prepared,
    RepliesDone,
    RepliesSettings,
    estimate,
    judge_replies,
    prepare,
    run_replies,
)
from ..systems import DEFAULT_JUDGES, Comparison, load_judges
from ._call_options import CallOptions
from ._call_progress import call_stages
from ._console import out

_NO_JUDGE = "none"


@dataclass(frozen=True, slots=True)
class RepliesOptions:
    """What is under test, as given on the command line; None where nothing was said."""

    models: Sequence[str]
    replay: Sequence[Path]
    prompts: Sequence[str] | None
    retrievals: Sequence[str] | None
    guards: Sequence[str] | None
    cases: str | None
    scorer: str | None
    writer: str | None
    judges: Sequence[str] | None
    context_chars: int | None
    limit: int | None
    seed: int | None
    dry_run: bool

    def read(self, files: Sequence[Path], passage: PassageKind, top_k: int) -> AskedFor:
        """Checked, with defaults for what was not said.

        Raises:
            InputError: something cannot be used.
        """
        if self.replay and not self.models:
            for option, value in (("--prompt", self.prompts), ("--retrieval", self.retrievals)):
                if value:
                    raise InputError(
                        "is what the logs say where replies are replayed",
                        where=option,
                        hint="leave it out, or add --model",
                    )
        settings = RepliesSettings(
            cases=_cases(self.cases),
            passage=passage,
            top_k=top_k,
            context_chars=self.context_chars,
            seed=self.seed or 0,
            limit=self.limit,
        )
        comparison = Comparison(
            models=self.models,
            prompts=self.prompts or ("basic",),
            retrievals=self.retrievals or ("basic_rag",),
            guards=self.guards or ("off",),
            replay=self.replay,
            scorer=self.scorer,
            writer=self.writer,
        )
        return AskedFor(files, comparison, settings, _judges(self.judges))


@dataclass(frozen=True, slots=True)
class AskedFor:
    """A run of replies, as it was asked for."""

    questions: Sequence[Path]
    comparison: Comparison
    settings: RepliesSettings
    judges: Sequence[str]


def tell_cost(asked: AskedFor, calls: CallOptions) -> None:
    """Print what every system would cost; nothing is written and no model is asked.

    Raises:
        InputError: the run could not be made.
    """
    calls.limits()
    calls.pool()
    prepared = prepare(asked.questions, asked.comparison, asked.settings)
    found = estimate(prepared)
    rows: list[tuple[str, ...]] = [("system", "replies", "calls", "tokens in", "tokens out")]
    for one in found:
        most = "≤ " if one.at_most else ""
        numbers = (one.calls, one.input_tokens, one.output_tokens)
        rows.append((one.system_id, str(one.replies), *(f"{most}{number}" for number in numbers)))
    # Not folded to the terminal: a pipe has no width.
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        right = (f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
        out.print("  ".join([f"{name:<{widths[0]}}", *right]), markup=False)
    calls_in_all, read, written = (
        sum(getattr(one, name) for one in found)
        for name in ("calls", "input_tokens", "output_tokens")
    )
    at_most = "at most " if any(one.at_most for one in found) else ""
    lines = [
        f"together {at_most}{calls_in_all} calls, about {read} tokens in and {written} out "
        "(4 characters to a token; replies as long as the expected answers)"
    ]
    lines += _not_counted(prepared, asked)
    out.print("\n".join([*lines, "nothing was asked or written"]), markup=False)


def ask_systems(asked: AskedFor, calls: CallOptions, out_dir: Path) -> None:
    """Ask all systems, judge what they said, and tell what came of it.

    Raises:
        InputError: something cannot be used.
    """
    limits, pool = calls.limits(), calls.pool()
    # Wrong names are reported before anything is paid for.
    judges = load_judges(asked.judges) if asked.judges else ()
    with call_stages() as advance:
        done = run_replies(
            asked.questions,
            out_dir,
            asked.comparison,
            encoder=BiEncoderScorer,
            settings=asked.settings,
            limits=limits,
            pool=pool,
            on_progress=advance,
        )
    for warning in done.prepared.replay.warnings:
        out.print(f"left out: {warning}", markup=False)
    if judges:
        with call_stages() as advance:
            judge_replies(out_dir, judges, limits=limits, on_progress=advance)
    out.print("\n".join([*_told(done), f"run → {out_dir}"]), markup=False)
    out.print(f"next: knowgate report {quote(str(out_dir))}", markup=False)


def _told(done: RepliesDone) -> list[str]:
    totals = done.totals
    lines = [f"{totals.total} replies ({totals.already} were there before)"]
    if totals.failed:
        lines[0] += f", {totals.failed} of them failed: see `error` in the replies"
    if totals.calls:
        tokens = f", {totals.input_tokens} tokens in, {totals.output_tokens} out"
        lines.append(f"{totals.calls} calls{tokens if totals.input_tokens else ''}")
    return lines


def _not_counted(prepared: Prepared, asked: AskedFor) -> list[str]:
    lines = []
    if CaseKind.SYNTHETIC in prepared.settings.cases:
        lines.append("not counted: synthetic questions, whose number is known once they are there")
    if prepared.systems.asks_models:
        lines.append("not counted: samples by which a guard measures the model's confidence")
    if any(name.startswith("llm:") for name in asked.judges):
        lines.append("not counted: calls of the judges, one per reply and criterion or fewer")
    return lines


def _cases(given: str | None) -> tuple[CaseKind, ...]:
    if given is None:
        return RepliesSettings().cases
    names = [name.strip() for name in given.split(",") if name.strip()]
    known = [kind.value for kind in CaseKind if kind is not CaseKind.LIVE]
    for name in names:
        if name not in known:
            raise InputError(
                f"there is no kind of case {name!r}",
                where="--cases",
                hint=f"some of: {', '.join(known)}, with commas between them",
            )
    return tuple(CaseKind(name) for name in names)


def _judges(given: Sequence[str] | None) -> Sequence[str]:
    if given is None:
        return DEFAULT_JUDGES
    if _NO_JUDGE in given and len(given) > 1:
        raise InputError(
            f"{_NO_JUDGE!r} and a judge contradict each other", where="--judge", hint="name one"
        )
    return () if _NO_JUDGE in given else given
