"""Judges by the names that the command line takes."""

from __future__ import annotations

from collections.abc import Sequence

from ...guard.errors import InputError
from ..run import ESTIMATE, GIVEN_JUDGE, load_chat_model, load_object
from ._contract import Judge
from ._criterion import Criterion, bundled_criteria
from ._judges import DETECTOR, DetectorJudge, EstimateJudge
from ._llm_judge import PREFIX, LLMJudge

DEFAULT_JUDGES = (DETECTOR, ESTIMATE)
_PYTHON = "python:"
_HINT = f"{DETECTOR}, {ESTIMATE}, {PREFIX}MODEL or python:module:attribute"


def load_judges(
    judges: Sequence[str | Judge],
    criteria: Sequence[Criterion] = (),
    *,
    bundled: bool = True,
) -> tuple[Judge, ...]:
    """Judges by name, objects as they are.

    Args:
        judges: `detector`, `estimate`, `llm:<model>` with a model as `load_chat_model`
            takes it, `python:module:attribute` for an object with the methods of `Judge`,
            or such an object.
        criteria: further ones for the language models, after the bundled ones; one of the
            same name takes its place.
        bundled: whether language models judge by the bundled criteria.

    Raises:
        InputError: no such judge, two of one name, or criteria that no judge asks.
        MissingDependencyError: as `load_chat_model`.
    """
    asked = _criteria(criteria, bundled=bundled)
    if not judges:
        raise InputError("no judge was named", where="judges", hint=_HINT)
    loaded = tuple(
        _load(judge, asked) if isinstance(judge, str) else _checked(judge, repr(type(judge)))
        for judge in judges
    )
    names = [judge.name for judge in loaded]
    if len(set(names)) < len(names) or GIVEN_JUDGE in names:
        raise InputError(
            "two judges have one name, or one is called `given`",
            where=", ".join(names),
            hint="name each once; `given` stands for labels that came with logged replies",
        )
    if criteria and not any(isinstance(judge, LLMJudge) for judge in loaded):
        raise InputError(
            "no judge asks by these criteria",
            where=", ".join(criterion.name for criterion in criteria),
            hint=f"name a language model as a judge: {PREFIX}MODEL",
        )
    return loaded


def _load(name: str, criteria: tuple[Criterion, ...]) -> Judge:
    if name == DETECTOR:
        return DetectorJudge()
    if name == ESTIMATE:
        return EstimateJudge()
    # No name of a model would be that of the folder one stands in.
    if name.startswith(PREFIX) and (model := name.removeprefix(PREFIX).strip()):
        return LLMJudge(load_chat_model(model), name=model, criteria=criteria)
    if name.startswith(_PYTHON):
        return _checked(load_object(name), name)
    raise InputError("there is no such judge", where=name, hint=_HINT)


def _checked(judge: object, where: str) -> Judge:
    if not isinstance(judge, Judge):
        raise InputError(
            "is no judge",
            where=where,
            hint="it needs name, estimate, criteria, version, wants and judge; see FunctionJudge",
        )
    return judge


def _criteria(further: Sequence[Criterion], *, bundled: bool) -> tuple[Criterion, ...]:
    chosen = {item.name: item for item in (bundled_criteria() if bundled else ())}
    names = [item.name for item in further]
    if len(set(names)) < len(names):
        raise InputError("two criteria have one name", where=", ".join(names))
    chosen.update({item.name: item for item in further})
    return tuple(chosen.values())
