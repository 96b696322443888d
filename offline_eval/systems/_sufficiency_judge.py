"""Load a language model as the judge of sufficiency: `--scorer judge:MODEL`."""

from __future__ import annotations

from pathlib import Path

from ...adapters.huggingface import HuggingFaceLM
from ...guard.contracts import LanguageModel
from ...guard.errors import InputError, PromptTooLongError
from ...guard.prompts import Prompt
from ...guard.signals.confidence import Sampling
from ...guard.signals.relevance import SufficiencyJudge, register_scorer
from ._factory import load_language_model

_OPTIONS = ("prompt", "samples", "seed", "temperature")
_HINT = "e.g. judge:openai:gpt-4o-mini,samples=3,temperature=0.7,seed=1,prompt=FILE"


def load_sufficiency_judge(spec: str) -> SufficiencyJudge:
    """Load the judge that the command line names after `judge:`.

    Args:
        spec: a model as `load_language_model` takes it; after commas `samples`, `temperature`
            and `seed` of its verdicts, and `prompt`, a file or the name of a bundled prompt.

    Raises:
        InputError: there is no such model or prompt, an option is unknown or out of range, or
            the prompt does not fit a local model.
        MissingDependencyError: a package is missing; the message names the command.
    """
    name, *parts = spec.split(",")
    if not name.strip():
        raise InputError("no model is named", where="judge:MODEL", hint=_HINT)
    given: dict[str, str] = {}
    for part in parts:
        option, _, value = part.partition("=")
        if option not in _OPTIONS or not value:
            raise InputError(f"{part!r} is no option of a judge", where=f"judge:{name}", hint=_HINT)
        given[option] = value
    prompt, sampling = _prompt(given), _sampling(given)
    language_model = load_language_model(name.strip())
    _require_room(language_model, prompt, name)
    return SufficiencyJudge(language_model, prompt=prompt, sampling=sampling)


def _require_room(language_model: LanguageModel, prompt: Prompt, name: str) -> None:
    """Reject a local model whose context window is too small for the prompt by itself."""
    if not isinstance(language_model, HuggingFaceLM):
        return
    encoder = language_model.engine.encoder
    try:
        encoder.encode([encoder.render(prompt.fill(mark="", question="", passages=""))])
    except PromptTooLongError as error:
        raise InputError(
            f"the prompt {prompt.name!r} does not fit the model, without any passage ({error})",
            where=f"judge:{name}",
            hint="name a model with a larger context window, or a shorter prompt: "
            f"judge:{name},prompt=FILE",
        ) from None


def _prompt(given: dict[str, str]) -> Prompt:
    name = given.get("prompt", "sufficiency")
    return Prompt.load(name) if Path(name).is_file() else Prompt.bundled(name)


def _sampling(given: dict[str, str]) -> Sampling:
    samples, temperature, seed = (
        _number(given, "samples", "5", int),
        _number(given, "temperature", "1.0", float),
        _number(given, "seed", "0", int),
    )
    try:
        return Sampling(n=int(samples), temperature=temperature, seed=int(seed))
    except InputError as error:
        raise InputError(error.what, where=f"{error.where} of the judge", hint=_HINT) from None


def _number(given: dict[str, str], option: str, default: str, kind: type[float]) -> float:
    try:
        return kind(given.get(option, default))
    except ValueError:
        raise InputError(
            f"{given[option]!r} is not a number", where=f"{option} of the judge", hint=_HINT
        ) from None


register_scorer("judge:", load_sufficiency_judge)
