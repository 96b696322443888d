"""Load judges by the names that the command line takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...guard.errors import InputError
from ..judging import Criterion, DetectorJudge, EstimateJudge, Judge, LLMJudge
from ..run import (
    Judgement,
)
from ._factory import PYTHON, load_chat_model, load_object

_BUILT_IN: Mapping[str, Callable[[], Judge]] = {
    DetectorJudge.name: DetectorJudge,
    EstimateJudge.name: EstimateJudge,
}
_LLM = LLMJudge.prefix
_HINT = f"{', '.join(_BUILT_IN)}, {_LLM}MODEL or python:module:attribute"


def load_judges(
    judges: Sequence[str | Judge],
    criteria: Sequence[Criterion] = (),
    *,
    bundled: bool = True,
) -> tuple[Judge, ...]:
    """Load judges by name; objects are taken as they are.

    Args:
        judges: `detector`, `estimate`, `llm:<model>` with a model as `load_chat_model`
            takes it, `python:module:attribute` for an object with the methods of `Judge`,
            or such an object.
        criteria: further ones for the language models, asked after the bundled ones; one with
            the name of a bundled criterion replaces it.
        bundled: whether language models judge by the bundled criteria.

    Raises:
        InputError: no such judge, two of one name, or criteria that no judge asks.
        MissingDependencyError: as `load_chat_model`.
    """
    asked = Criterion.bundled(criteria) if bundled else tuple(criteria)
    if not judges:
        raise InputError("no judge was named", where="judges", hint=_HINT)
    loaded = tuple(
        _load(judge, asked) if isinstance(judge, str) else _checked(judge, repr(type(judge)))
        for judge in judges
    )
    names = [judge.name for judge in loaded]
    if len(set(names)) < len(names) or Judgement.GIVEN in names:
        raise InputError(
            "two judges have one name, or one is called `given`",
            where=", ".join(names),
            hint="name each once; `given` stands for labels that came with logged replies",
        )
    if criteria and not any(isinstance(judge, LLMJudge) for judge in loaded):
        raise InputError(
            "no judge asks by these criteria",
            where=", ".join(criterion.name for criterion in criteria),
            hint=f"name a language model as a judge: {_LLM}MODEL",
        )
    return loaded


def _load(name: str, criteria: tuple[Criterion, ...]) -> Judge:
    if name in _BUILT_IN:
        return _BUILT_IN[name]()
    # An empty name would be that of the current folder.
    if name.startswith(_LLM) and (model := name.removeprefix(_LLM).strip()):
        return LLMJudge(load_chat_model(model), name=model, criteria=criteria)
    if name.startswith(PYTHON):
        return _checked(load_object(name), name)
    raise InputError("there is no such judge", where=name, hint=_HINT)


def _checked(judge: object, where: str) -> Judge:
    if not isinstance(judge, Judge):
        raise InputError(
            "is not a judge",
            where=where,
            hint="it needs name, estimate, criteria, version, wants and judge; see FunctionJudge",
        )
    return judge
