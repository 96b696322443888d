"""Prompts as files in a package, each replaceable; what fits into a model, and what it scores."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path

import numpy as np

from ...guard.contracts import ScoringLanguageModel
from ...guard.errors import InputError, KnowgateError, LanguageModelError
from ...guard.prompts import Prompt
from ..run.calls import each_or_error


class PromptSet:
    """The prompts of a package.

    Args:
        package: that holds the bundled files.
        folder: with the user's own files, such as `ck.txt`; what is missing there is taken
            from the bundled ones. Further `belief_*.txt` are further variants.
        needed: slots without which a model is not asked what it is measured by.
        only_known: refuse text files that are no prompt of the package.

    Raises:
        InputError: the folder is none, a file has other slots than the bundled one or lacks one
            that is needed, or is no prompt.
    """

    def __init__(
        self,
        package: str,
        folder: str | os.PathLike[str] | None = None,
        *,
        needed: frozenset[str] = frozenset(),
        only_known: bool = False,
    ) -> None:
        if folder is not None and not Path(folder).is_dir():
            raise InputError("is no folder", where=os.fspath(folder), hint="name one with prompts")
        self._prompts = {
            file.name[:-4]: Prompt(file.name[:-4], file.read_text("utf-8").rstrip("\n"))
            for file in resources.files(package).iterdir()
            if file.name.endswith(".txt")
        }
        variants = self._prompts.get("belief_1")
        for path in sorted(Path(folder).glob("*.txt")) if folder is not None else ():
            model = self._prompts.get(path.stem)
            if model is None and path.stem.startswith("belief_"):
                model = variants
            if model is not None:
                own = self._prompts[path.stem] = Prompt.load(path)
                own.require_slots(model.slots, model.slots & needed, where=str(path))
            elif only_known:
                names = ", ".join(sorted(self._prompts))
                raise InputError(
                    "no prompt is called that",
                    where=str(path),
                    hint=f"one of: {names}",
                )

    def __getitem__(self, name: str) -> Prompt:
        """The prompt of that name; KeyError without one."""
        return self._prompts[name]

    def of(self, name: str, language: str) -> Prompt:
        """The prompt in a language; one without prompts of its own gets the English ones."""
        return self._prompts.get(f"{name}_{language}", self._prompts[f"{name}_en"])

    @property
    def belief_variants(self) -> tuple[Prompt, ...]:
        """The wordings in which an answer is asked for its being right."""
        return tuple(
            prompt for name, prompt in sorted(self._prompts.items()) if name.startswith("belief_")
        )

    @property
    def sha256(self) -> dict[str, str]:
        """Name → hash, for manifests."""
        return {name: prompt.sha256 for name, prompt in sorted(self._prompts.items())}


def token_counter(lm: object) -> Callable[[str], int] | None:
    """Return what counts the tokens of bare text; None of a model that does not tell."""
    token_ids: Callable[[str], list[int]] | None = getattr(lm, "token_ids", None)
    return None if token_ids is None else lambda text: len(token_ids(text))


def fits(lm: object, answer_tokens: int) -> Callable[[str], bool]:
    """Return whether a prompt leaves room for an answer; all do where the model has no window.

    Args:
        lm: a model.
        answer_tokens: kept free for the answer.
    """
    # The tokens that prompt and answer may have together.
    count, window = token_counter(lm), getattr(lm, "context_window", None)
    if count is None or window is None:
        return lambda _prompt: True
    return lambda prompt: count(prompt) <= window - answer_tokens


def option_likelihoods(
    lm: ScoringLanguageModel,
    prompts: Sequence[str],
    options: Sequence[str],
    lengths: Sequence[int] | None = None,
) -> list[list[float] | KnowgateError]:
    """Return the natural-log likelihoods of options after each prompt; an error where that failed.

    Args:
        lm: the model.
        prompts: any number.
        options: to be scored after each.
        lengths: of the options, by which their likelihoods are divided; None for not at all.

    Raises:
        InputError: an argument is out of the model's range.
    """

    def score(some: Sequence[str]) -> list[list[float] | KnowgateError]:
        values = lm.score_options(some, [f" {option}" for option in options])
        if not np.isfinite(values).all():
            raise LanguageModelError("the model gave a likelihood that is not finite")
        return [*(values / np.asarray(lengths or 1)).tolist()]

    return each_or_error(score, prompts)
