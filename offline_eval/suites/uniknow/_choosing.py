"""The methods of the suite: which there are, and which of them can run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ....adapters.huggingface import HuggingFaceLM
from ....guard.contracts import LanguageModel
from ....guard.errors import InputError
from ....guard.policy import Policy
from ...run.calls import OnProgress
from ._cases import PromptSet
from ._guard import SignalMeter, guarded
from .methods import (
    Method,
    RememberingMethod,
    TrainedMethod,
    TrainedVariant,
    Trainer,
    ablation_variants,
    contrastive_method,
    prompted_method,
)

_PROMPTED = ("naive", "prompting")
_CONTRASTIVE = ("cad", "coiecd", "coiecd_prompt")
_TRAINED = ("retrobust", "kaft", "lm_uniknow")
GUARDED = ("guard_naive", "guard_coiecd")
METHOD_NAMES = (*_PROMPTED, *_CONTRASTIVE, *_TRAINED, *GUARDED)
ALL_METHODS = "all"
# Not part of `all`: it goes beyond the paper's comparison.
_OPTIONAL = ("dpo",)


def check_methods(names: Sequence[str]) -> None:
    """Check the names of methods.

    Raises:
        InputError: one is unknown, or none is named.
    """
    known = (*METHOD_NAMES, *_OPTIONAL, ALL_METHODS)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise InputError(
            f"unknown method {unknown[0]!r}" if unknown else "no method is named",
            where="methods",
            hint=f"one or several of: {', '.join(known)}",
        )


def wanted_methods(names: Sequence[str], *, ablations: bool = False) -> tuple[str, ...]:
    """Return the methods asked for, in the order of the rows, whatever the model allows.

    Args:
        names: of methods, or `all`.
        ablations: also train `lm_uniknow` on other data.
    """
    wanted = {*names, *(METHOD_NAMES if ALL_METHODS in names else ())}
    return (
        *(name for name in (*METHOD_NAMES, *_OPTIONAL) if name in wanted),
        *(variant.name for variant in ablation_variants() if ablations),
    )


def choose_methods(
    names: Sequence[str], lm: LanguageModel, *, ablations: bool = False
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Choose the methods asked for that the model allows.

    Args:
        names: of methods, or `all`, which leaves out what the model does not allow.
        lm: what is asked.
        ablations: also train `lm_uniknow` on other data.

    Returns:
        The methods in the order of the rows, ablations last; and those that `all` asks for and
        that are not possible, with the reason.

    Raises:
        InputError: a method asked for by name, or the ablations, cannot be run.
    """
    possible: list[str] = []
    left_out: dict[str, str] = {}
    for name in wanted_methods(names, ablations=ablations):
        reason = _why_not(name, lm)
        if not reason:
            possible.append(name)
        elif ALL_METHODS in names:
            left_out[name] = reason
        else:
            raise InputError(reason, where=name, hint="leave the method out, or use a local model")
    return tuple(possible), left_out


def is_trained(name: str) -> bool:
    """Return whether a method, or a variant of one, trains an adapter."""
    return name.partition("@")[0] in (*_TRAINED, *_OPTIONAL)


def _why_not(name: str, lm: LanguageModel) -> str:
    """Return why a model does not allow a method; empty if it does."""
    kind = type(lm).__name__
    contrastive = name in _CONTRASTIVE or name == "guard_coiecd"
    if contrastive and not hasattr(lm, "generate_contrastive"):
        return f"a {kind} does not show its next-token scores (it has no generate_contrastive)"
    if is_trained(name) and not isinstance(lm, HuggingFaceLM):
        return f"the weights of a {kind} cannot be trained here"
    if is_trained(name) and not Path(getattr(lm, "name", "")).is_dir():
        return "training needs the folder of the model"
    return ""


@dataclass(slots=True)
class Methods:
    """Make the methods of a run.

    Attributes:
        lm: what is asked.
        prompts: of the data set.
        left_out: methods that were asked for and that the model does not allow, with the reason.
        trainer: of trained methods; None if there are none.
        meter: measured the guards' signals; None if there are no guards.
        policy: of the guards; None likewise.
    """

    lm: LanguageModel
    prompts: PromptSet
    left_out: Mapping[str, str] = field(default_factory=dict)
    trainer: Trainer | None = None
    meter: SignalMeter | None = None
    policy: Policy | None = None
    _asked: dict[str, RememberingMethod] = field(default_factory=dict)
    _last: tuple[str, Method] | None = None

    def remembering(self, name: str) -> RememberingMethod:
        """Return a method without training or guard; a guard can use its replies again."""
        if name not in self._asked:
            make = prompted_method if name in _PROMPTED else contrastive_method
            self._asked[name] = RememberingMethod(make(name, self.lm, self.prompts))
        return self._asked[name]

    def train(self, name: str, on_progress: OnProgress | None = None) -> None:
        """Train the adapter of a method, if it needs one and it does not exist.

        Raises:
            InputError: it cannot be trained.
        """
        if is_trained(name):
            assert self.trainer is not None
            self.trainer.train(_variant(name), on_progress)

    def make(self, name: str) -> Method:
        """Return the method of that name; only the last one is kept in memory.

        Raises:
            InputError: it cannot be trained, or the guard's parts do not belong together.
        """
        if self._last is None or self._last[0] != name:
            self._last = None
            self._last = name, self._made(name)
        return self._last[1]

    def _made(self, name: str) -> Method:
        if name in GUARDED:
            assert self.meter is not None
            assert self.policy is not None
            base = self.remembering(name.removeprefix("guard_"))
            return guarded(base, self.policy, self.meter)
        if is_trained(name):
            assert self.trainer is not None
            return self.trainer.method(_variant(name))
        return self.remembering(name)


def _variant(name: str) -> TrainedVariant:
    variants = {variant.name: variant for variant in ablation_variants()}
    return variants.get(name) or TrainedVariant(TrainedMethod(name))
