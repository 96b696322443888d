"""Ask a language model step by step: the one place that calls it for estimators and judges.

What asks is written once, as a generator that yields requests, is sent their answers, and
returns its result. Sync, async and many at once differ only in who fulfils the requests, so
they cannot disagree.

    def steps(question: str) -> Steps[str]:
        [greedy] = yield Draw(prompt.fill(question=question))
        return greedy.text.strip()

A request that fails raises its error at the `yield`: a step may catch it, e.g. a
`PartialGenerationsError`, and go on with what arrived.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import (
    Awaitable,
    Callable,
    Generator,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar

from .contracts import Generation, LanguageModel, PartialGenerationsError
from .deadlines import call_on_thread, check_deadline
from .errors import InputError, KnowgateError, LanguageModelError, LanguageModelTimeoutError
from .routing import Send, adrive_all, at_once

Result = TypeVar("Result")
BATCH_SIZE = 64


@dataclass(frozen=True, slots=True)
class Draw:
    """Answers to be generated; its answer is a `list[Generation]` of exactly `n`."""

    prompt: str
    n: int = 1
    temperature: float = 0.0
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Evaluate:
    """A number or more that the language model gives for a prompt without generating.

    Attributes:
        prompt: what it reads.
        method: of the model: `score_options` of a `ScoringLanguageModel`, whose answer is a
            natural-log likelihood for each option; or `hidden_states(prompts, layer)` of a local
            model, the last token's state after a layer, of shape (len(prompts), width), whose
            answer is an array of shape (width,).
        argument: the options, or the number of the layer.
    """

    prompt: str
    method: Literal["score_options", "hidden_states"]
    argument: tuple[str, ...] | int


# Or local work that takes long, e.g. embedding: a function, whose result is the answer. The async
# form runs it in a thread.
Request = Draw | Evaluate | Callable[[], Any]
Steps = Generator[Request, Any, Result]
# The first of several requests that differ in their prompt only, and the prompts of all of them:
# one per answer; none for local work.
JointCall = tuple[Request, tuple[str, ...]]
_Ask = Callable[[JointCall], Awaitable[list[Any] | KnowgateError]]


async def _asked(model: LanguageModel, awaits: bool, call: JointCall) -> list[Any] | KnowgateError:
    """One answer per prompt, or the error that the model raised."""
    check_deadline()
    request, prompts = call
    try:
        if not isinstance(request, Draw):
            task = partial(_without_drawing, model, call)
            return await call_on_thread(task) if awaits else task()
        options: Any = {"n": request.n, "temperature": request.temperature, "seed": request.seed}
        if awaits:
            return _checked(await model.agenerate(prompts, **options), call)
        return _checked(model.generate(prompts, **options), call)
    except KnowgateError as error:
        return error


def _without_drawing(model: LanguageModel, call: JointCall) -> list[Any]:
    request, prompts = call
    if isinstance(request, Evaluate):
        found = _method(model, request.method)
        return list(found(prompts, request.argument))
    if callable(request):
        return [request()]
    raise TypeError(f"an estimator's step asked for a {type(request).__name__}")


def _method(model: LanguageModel, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] | None = getattr(model, name, None)
    if found is None:
        hint = "use a local model, e.g. knowgate.adapters.huggingface.HuggingFaceLM"
        what = f"a {type(model).__name__} has no {name}"
        raise InputError(what, where="language_model", hint=hint)
    return found


def _checked(rows: Sequence[Sequence[Generation]], call: JointCall) -> list[list[Generation]]:
    prompts, n = call[1], getattr(call[0], "n", 0)
    if len(rows) != len(prompts):
        raise LanguageModelError(f"answers to {len(rows)} prompts of {len(prompts)}")
    for row in rows:
        if len(row) != n:
            raise LanguageModelError(f"{len(row)} generations where {n} were asked for")
    return [list(row) for row in rows]


def _joint_calls(
    requests: Mapping[int, Request],
    batch_size: int,
) -> Iterator[tuple[JointCall, list[list[int]]]]:
    """Combine requests into joint calls where possible.

    Args:
        requests: by the number of the question that waits for it.
        batch_size: prompts per call at most.

    Yields:
        A call, and for each of its prompts the numbers of the questions that wait
        for its answer: two questions with the same prompt and seed share one.
    """
    groups: dict[Hashable, dict[Hashable, list[int]]] = {}
    for number, request in requests.items():
        kind: Hashable = number
        share: Hashable = number
        if isinstance(request, Draw | Evaluate):
            kind = replace(request, prompt="")
            unlike = isinstance(request, Draw) and request.temperature > 0 and request.seed is None
            share = number if unlike else request.prompt
        groups.setdefault(kind, {}).setdefault(share, []).append(number)
    for group in groups.values():
        shares = list(group.values())
        for start in range(0, len(shares), batch_size):
            part = shares[start : start + batch_size]
            asked = [requests[numbers[0]] for numbers in part]
            prompts = tuple(r.prompt for r in asked if isinstance(r, Draw | Evaluate))
            yield (asked[0], prompts), part


def run_steps(
    model: LanguageModel, steps: Sequence[Steps[Result]], batch_size: int, *, raising: bool
) -> list[Result | KnowgateError]:
    """The result of each of `steps`, their requests put together.

    Args:
        model: what is asked.
        steps: begun by nobody else.
        batch_size: prompts per call of the model at most.
        raising: whether the first error is raised, rather than returned in its place.

    Raises:
        KnowgateError: under `raising`.
        DeadlineExceededError: nobody waits for the results any more.
        InputError: `batch_size` is out of range.
    """
    return at_once(arun_steps(model, steps, batch_size, raising=raising, awaits=False))


async def arun_steps(
    model: LanguageModel,
    steps: Sequence[Steps[Result]],
    batch_size: int,
    *,
    raising: bool,
    awaits: bool = True,
) -> list[Result | KnowgateError]:
    """As `run_steps`, without blocking the event loop unless it `awaits` nothing."""
    if batch_size < 1:
        raise InputError("must be at least 1", where="batch_size")
    ask = partial(_asked, model, awaits)

    async def answer(asked: dict[int, Request], send: Send[Any]) -> None:
        for call, owners in _joint_calls(asked, batch_size):
            for one, numbers in zip(await _fulfilled(ask, call), owners, strict=True):
                for number in numbers:
                    # A list of its own: two questions may share one answer.
                    send(number, list(one) if isinstance(one, list) else one)

    return await adrive_all(steps, answer, raising=raising)


async def _fulfilled(ask: _Ask, call: JointCall) -> list[Any]:
    """The answer or error of each prompt; one that fails does not fail the others."""
    answers = await ask(call)
    request, prompts = call
    if not isinstance(answers, KnowgateError):
        return answers
    if isinstance(answers, PartialGenerationsError) and (
        len(answers.generations) == len(answers.errors) == len(prompts)
    ):
        return [*map(_part, answers.generations, answers.errors)]
    if len(prompts) <= 1:
        return [answers]
    alone: list[Any] = []
    for prompt in prompts:
        # Two that hang in a row: else an outage would cost a deadline for every question.
        last = [isinstance(one, LanguageModelTimeoutError) for one in alone[-2:]]
        if last == [True, True]:
            alone.append(alone[-1])
        else:
            alone += await _fulfilled(ask, (request, (prompt,)))
    return alone


def _part(row: Sequence[Generation], why: LanguageModelError | None) -> Any:
    """The generations of one prompt, or the error where there are too few."""
    if why is None:
        return list(row)
    if not row:
        return why
    part = PartialGenerationsError(str(why), [row], [why])
    part.__cause__ = why
    return part


_YES = re.compile(r"\W*(?:(?:yes|true|right|correct)(?![a-z])|是|对|對|正确|正確)", re.IGNORECASE)
_NO = re.compile(r"\W*(?:(?:no|not|false|wrong|incorrect)(?![a-z])|不|否|错|錯)", re.IGNORECASE)


def score_yes(prompt: str, yes: Sequence[str], no: Sequence[str]) -> Steps[float]:
    """P(yes) / (P(yes) + P(no)) over the spellings of words for both."""
    forms, others = _spellings(yes), _spellings(no)
    found = yield Evaluate(prompt, "score_options", (*forms, *others))
    scores = [float(one) for one in found]
    return share_of_yes(scores[: len(forms)], scores[len(forms) :])


def _spellings(words: Sequence[str]) -> list[str]:
    """Words with and without a capital, and with and without a space before them."""
    pairs = ((space, word) for word in words for space in (" ", ""))
    forms = (space + form for space, word in pairs for form in (word, word.capitalize()))
    return list(dict.fromkeys(forms))


def draw_some(
    draw: Draw, least: int = 0
) -> Steps[tuple[list[Generation], LanguageModelError | None]]:
    """What arrives of the answers asked for, and the error where some did not.

    Args:
        draw: what is asked for.
        least: how many must have arrived; the error is raised where fewer have.
    """
    try:
        return (yield draw), None
    except LanguageModelError as error:
        rows = error.generations if isinstance(error, PartialGenerationsError) else ()
        arrived = [reply for row in rows for reply in row]
        if len(arrived) < least:
            raise
        return arrived, error


def verdicts_of(replies: Iterable[Generation]) -> list[bool]:
    """What replies say that say yes or no."""
    return [said for reply in replies if (said := says_yes(reply.text)) is not None]


def share_of_yes(yes: Sequence[float], no: Sequence[float]) -> float:
    """P(yes) / (P(yes) + P(no)) from natural-log likelihoods of the spellings of each.

    Raises:
        LanguageModelError: neither has any probability.

    Example:
        >>> round(share_of_yes([-1.0], [-2.0]), 3)
        0.731
    """
    log_yes, log_no = log_sum_exp(yes), log_sum_exp(no)
    if not (math.isfinite(log_yes) or math.isfinite(log_no)):
        raise no_verdict()
    # Written with the larger one in front, so that neither overflows.
    difference = log_no - log_yes
    return 1 / (1 + math.exp(difference)) if difference < 700 else 0.0


def says_yes(reply: str) -> bool | None:
    """Whether a reply begins with yes (or true, right, 是 …) or with no; None for neither.

    Example:
        >>> says_yes(" Yes, it is."), says_yes("不对。"), says_yes("Perhaps")
        (True, False, None)
    """
    text = unicodedata.normalize("NFKC", reply)
    if _NO.match(text):
        return False
    return True if _YES.match(text) else None


def first_token_share(reply: Generation) -> float:
    """P(yes) by the probability p of a reply's first token: p for a yes, 1 − p for a no.

    Raises:
        LanguageModelError: the reply says neither, or has no log-probabilities.
    """
    verdict = says_yes(reply.text)
    if verdict is None or not reply.token_logprobs:
        raise no_verdict()
    probability = math.exp(min(0.0, reply.token_logprobs[0]))
    return probability if verdict else 1 - probability


def no_verdict() -> LanguageModelError:
    """The failure of a model that replied neither yes nor no."""
    return LanguageModelError("the language model replied neither yes nor no")


def log_sum_exp(values: Sequence[float]) -> float:
    """log Σ exp(value) without overflow; -inf where all values are.

    Example:
        >>> round(log_sum_exp([-1000.0, -1000.0]), 4)
        -999.3069
    """
    highest = max(values)
    if highest == -math.inf:
        return highest
    return highest + math.log(math.fsum(math.exp(value - highest) for value in values))
