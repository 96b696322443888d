"""Load models by name, and any object by `python:module:attribute`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable
from pydantic import BaseModel, ConfigDict, Field

from ...adapters.huggingface import HuggingFaceChatModel, HuggingFaceLM, model_folder
from ...adapters.langchain import ChatLimits, ChatModelLM
from ...guard.contracts import LanguageModel
from ...guard.errors import InputError, MissingDependencyError, PromptTooLongError
from ...guard.prompts import Prompt
from ...guard.read_models import check_model
from ...guard.registry import PYTHON, import_object
from ...guard.signals.confidence import Sampling
from ...guard.signals.relevance import SufficiencyJudge, register_scorer
from ..judging.contract import Judge
from ..judging.judges import DetectorJudge, EstimateJudge
from ..judging.llm_judge import Criterion, LLMJudge
from ..run import CallLimits
from ..run.replies import Judgement
from ..testbed.check import microworld_model_path

EMBEDDED = "embedded"
_MODEL_HINT = (
    f"`{EMBEDDED}`, `smollm2`, a folder with Hugging Face weights, `gguf:FILE`, `provider:model` "
    "as LangChain names it, or `python:module:attribute`"
)


_NO_LIMITS, _USUAL_TIMEOUT = CallLimits(timeout=None), 60.0
_ONE = "name one, or a function without arguments that returns one"
_RUNNABLE = "a chat model or runnable of LangChain"
_JUDGE_PARTS = "it needs name, estimate, criteria, version, wants and judge"


def local_model(name: str) -> Path | None:
    """Return the folder of a model with local weights; None for any other name.

    Args:
        name: `embedded`, `smollm2`, `gguf:FILE` or a folder.

    Raises:
        ModelFolderError: the model was not downloaded, or its file is damaged.
        MissingDependencyError: a package is missing; the message names the command.
    """
    if name == EMBEDDED:
        return microworld_model_path()
    return Path(name) if Path(name).is_dir() else model_folder(name)


def load_language_model(
    name: str, limits: CallLimits = _NO_LIMITS, *, explained: int = 0
) -> LanguageModel:
    """Load a language model by name.

    A model with local weights can also score options; any other is called as a chat model.

    Args:
        name: as for `load_chat_model`; `python:…` may also name a `LanguageModel`.
        limits: of the calls of a chat model: how many at once, and the seconds of each, a minute
            by default.
        explained: tokens that a model with local weights may take for an answer with its
            explanation, of several lines; 0 for a short answer.

    Raises:
        InputError: there is no such model.
        MissingDependencyError: a package is missing; the message names the command.
    """
    if (folder := local_model(name)) is not None:
        options: Any = {"max_new_tokens": explained, "stop": ()} if explained else {}
        return HuggingFaceLM(folder, **options)
    found = load_object(name) if name.startswith(PYTHON) else load_chat_model(name)
    if not isinstance(found, Runnable) and isinstance(found, LanguageModel):
        return found
    return ChatModelLM(
        require_kind(found, Runnable, _RUNNABLE, name),
        limits=ChatLimits(
            max_concurrency=limits.max_concurrency, timeout=limits.timeout or _USUAL_TIMEOUT
        ),
    )


def load_chat_model(name: str) -> Runnable[Any, Any]:
    """Load a chat model by name.

    Args:
        name: `embedded` (the bundled language model); `smollm2` (SmolLM2-135M-Instruct, once
            `knowgate models smollm2` has downloaded it); `gguf:FILE`; a folder with Hugging
            Face weights; `provider:model` as LangChain's `init_chat_model` takes it (needs the
            packages `langchain` and the provider's); or `python:module:attribute`: a chat model, a
            runnable, or a function without arguments that returns one. Modules in the
            current folder can be imported.

    Raises:
        InputError: there is no such model.
        MissingDependencyError: a package is missing; the message names the command.
    """
    if name.startswith(PYTHON):
        own: Runnable[Any, Any] = require_kind(load_object(name), Runnable, _RUNNABLE, name)
        return own
    if (folder := local_model(name)) is not None:
        return HuggingFaceChatModel(lm=HuggingFaceLM(folder))
    provider, colon, _ = name.partition(":")
    if not colon or not provider:
        raise InputError("there is no such model", where=name, hint=_MODEL_HINT)
    return _of_provider(name)


def require_kind(found: Any, kind: Any, what: str, where: str, hint: str = _ONE) -> Any:
    """Check that an object is of a kind, and return it.

    Args:
        found: as it was loaded.
        kind: a class, or several.
        what: it must be, in words.
        where: how it was named.
        hint: what to name.

    Raises:
        InputError: it is something else.
    """
    if not isinstance(found, kind):
        raise InputError(f"is a {type(found).__name__}, not {what}", where=where, hint=hint)
    return found


def _of_provider(name: str) -> BaseChatModel:
    try:
        from langchain.chat_models import init_chat_model
    except ImportError:
        raise MissingDependencyError(
            "a model by provider needs `pip install 'knowgate[langchain]'` and the provider's "
            "own package, e.g. `langchain-openai`"
        ) from None
    try:
        found: BaseChatModel = init_chat_model(name)
    except ImportError as error:
        # LangChain's message names the package to install.
        raise MissingDependencyError(str(error).partition("\n")[0]) from None
    except Exception as error:  # noqa: BLE001 - providers raise anything
        # A provider's message may hold a key: only its type is shown.
        raise InputError(
            f"the provider's package raised {type(error).__name__}",
            where=name,
            hint=f"check name and key; otherwise {_MODEL_HINT}",
        ) from None
    return found


def load_object(name: str) -> Any:
    """Load the object that `python:module:attribute` names; a plain function is called.

    Raises:
        InputError: there is no such module or attribute, or it cannot be made.
    """
    found = import_object(name)
    if callable(found) and not hasattr(found, "invoke") and not isinstance(found, type):
        try:
            return found()
        except Exception as error:
            raise InputError(
                f"calling it raised {type(error).__name__}",
                where=name,
                hint="the function must work without arguments",
            ) from error
    return found


_BUILT_IN: Mapping[str, Callable[[], Judge]] = {
    DetectorJudge.name: DetectorJudge,
    EstimateJudge.name: EstimateJudge,
}
_LLM = Judgement.LLM_PREFIX
_JUDGE_HINT = f"{', '.join(_BUILT_IN)}, {_LLM}MODEL or python:module:attribute"


def load_judges(
    judges: Sequence[str | Judge],
    criteria: Sequence[Criterion] = (),
) -> tuple[Judge, ...]:
    """Load judges by name; objects are taken as they are.

    Args:
        judges: `detector`, `estimate`, `llm:<model>` with a model as `load_chat_model`
            takes it, `python:module:attribute` for an object with the methods of `Judge`,
            or such an object.
        criteria: further ones for the language models, asked after the bundled ones; one with
            the name of a bundled criterion replaces it.

    Raises:
        InputError: no such judge, two of one name, or criteria that no judge asks.
        MissingDependencyError: as `load_chat_model`.
    """
    asked = Criterion.bundled(criteria)
    if not judges:
        raise InputError("no judge was named", where="judges", hint=_JUDGE_HINT)
    loaded = tuple(
        _load(judge, asked)
        if isinstance(judge, str)
        else require_kind(judge, Judge, "a judge", "judges", _JUDGE_PARTS)
        for judge in judges
    )
    names = [judge.name for judge in loaded]
    if len(set(names)) < len(names) or Judgement.GIVEN in names:
        what = "two judges have one name, or one is called `given`"
        hint = "name each once; `given` stands for labels that came with logged replies"
        raise InputError(what, where=", ".join(names), hint=hint)
    if criteria and not any(isinstance(judge, LLMJudge) for judge in loaded):
        where = ", ".join(criterion.name for criterion in criteria)
        hint = f"name a language model as a judge: {_LLM}MODEL"
        raise InputError("no judge asks by these criteria", where=where, hint=hint)
    return loaded


def _load(name: str, criteria: tuple[Criterion, ...]) -> Judge:
    if name in _BUILT_IN:
        return _BUILT_IN[name]()
    # An empty name would be that of the current folder.
    if name.startswith(_LLM) and (model := name.removeprefix(_LLM).strip()):
        return LLMJudge(load_chat_model(model), name=model, criteria=criteria)
    if name.startswith(PYTHON):
        own: Judge = require_kind(load_object(name), Judge, "a judge", name, _JUDGE_PARTS)
        return own
    raise InputError("there is no such judge", where=name, hint=_JUDGE_HINT)


_SCORER_HINT = "e.g. judge:openai:gpt-4o-mini,samples=3,temperature=0.7,seed=1,prompt=FILE"


class _JudgeOptions(BaseModel):
    """What stands after the model in `judge:MODEL,…`."""

    model_config = ConfigDict(extra="forbid")

    samples: int = Field(5, ge=1)
    temperature: float = Field(1.0, gt=0, allow_inf_nan=False)
    seed: int = 0
    prompt: str = Field("sufficiency", min_length=1)


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
        raise InputError("no model is named", where="judge:MODEL", hint=_SCORER_HINT)
    given = dict(part.partition("=")[::2] for part in parts)
    options = check_model(_JudgeOptions, given, where=f"judge:{name}", hint=_SCORER_HINT)
    is_file = Path(options.prompt).is_file()
    prompt = Prompt.load(options.prompt) if is_file else Prompt.bundled(options.prompt)
    sampling = Sampling(n=options.samples, temperature=options.temperature, seed=options.seed)
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


register_scorer("judge:", load_sufficiency_judge)
