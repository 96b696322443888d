"""Relevance scorers by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any, Unpack, cast, get_type_hints

from pydantic import TypeAdapter

from ...contracts import RelevanceScorer, SetRelevanceScorer, require_scorer
from ...engine import BiEncoderScorer, CrossEncoderScorer
from ...engine.backends import ScorerOptions
from ...engine.encoder import TokenEncoder, exported_as
from ...engine.model_folder import find_model
from ...errors import InputError
from ...fingerprint import CASCADE, METADATA, MIX, Fingerprint, read_loosely
from ...model_files import ADAPTER_CONFIG, MS_MARCO, reranker_folder
from ...registry import Registry
from ._combined import MOST_PARTS, CascadeScorer, MixScorer, strict_reading
from ._judge import JUDGE
from ._without_model import LexicalScorer, MetadataScorer
from .late_interaction import LateInteractionScorer, token_encoder
from .sufficiency import (
    SUFFICIENCY_FILE,
    CrossSufficiencyScorer,
    MultilingualScorer,
    SufficiencyScorer,
)

# The scorer wherever none is named.
DEFAULT_SCORER = "sufficiency"
# The one that reads, for those who have the time.
ACCURATE_SCORER = "sufficiency_cross"
# Before a model of Hugging Face: a folder, a preset or a hub id.
_MODEL = "hf:"


def _late_interaction(
    folder: str | None = None,
    **options: Unpack[ScorerOptions],
) -> LateInteractionScorer:
    return LateInteractionScorer(TokenEncoder(folder, **options))


def _ms_marco(**options: Unpack[ScorerOptions]) -> CrossEncoderScorer:
    """The reranker that `knowgate models ms-marco` has downloaded, in one of its two forms."""
    folder = reranker_folder()
    # In int8 it is computed by the graph as it was published.
    found = folder / "int8" if options.get("dtype") == "int8" else folder
    return CrossEncoderScorer(found, kind=MS_MARCO, **options)


# Scorers with encoders: made from a folder or none, and from options.
_ENCODER_SCORERS: dict[str, Callable[..., RelevanceScorer]] = {
    "bi_encoder": BiEncoderScorer,
    "late_interaction": _late_interaction,
    MS_MARCO: _ms_marco,
    "multilingual": MultilingualScorer,
    "sufficiency": SufficiencyScorer,
    "sufficiency_cross": CrossSufficiencyScorer,
}
# Scorers that an exported folder may hold.
_EXPORTED = {name: _ENCODER_SCORERS[name] for name in ("bi_encoder", "late_interaction")}
_EXPORTED["cross_encoder"] = CrossEncoderScorer
# Those whose names end in a colon are made from what follows it.
_SCORERS: Registry[Callable[..., RelevanceScorer]] = Registry(
    "a scorer",
    {
        **_ENCODER_SCORERS,
        "lexical": LexicalScorer,
        f"{METADATA}:": MetadataScorer.parse,
        "strict:": lambda rest: strict_reading(load_scorer(rest)),
        f"{MIX}:": lambda rest: MixScorer([*map(load_scorer, parts_of_mix(f"{MIX}:{rest}"))]),
    },
    group="knowgate.scorers",
)
register_scorer = _SCORERS.register


@dataclass(frozen=True, slots=True)
class ScorerPreset:
    """A model on the hub that is known to serve as a scorer, and what its number says.

    Attributes:
        hub_id: of the model.
        millions: of parameters, as its maker states on the model's page.
        licence: of the weights, likewise.
        means: what a high number means.
    """

    hub_id: str
    millions: int
    licence: str
    means: str


_PRESETS = resources.files(__package__).joinpath("data", "hub_models.json").read_text("utf-8")
PRESETS = MappingProxyType(TypeAdapter(dict[str, ScorerPreset]).validate_json(_PRESETS))


class _LoadOptions(ScorerOptions, total=False):
    """What computes a scorer, and a folder of encoded passages."""

    passages: str


def scorer_names() -> tuple[str, ...]:
    """Names that `load_scorer` knows, sorted."""
    return _SCORERS.names


def parts_of_mix(name: str) -> tuple[str, ...]:
    """The scorers that `mix:NAME+NAME` names; none for any other scorer.

    Raises:
        InputError: there are fewer than two or more than five, or one is empty or stands twice.

    Example:
        >>> parts_of_mix("mix:sufficiency+metadata:distance,lower=true")
        ('sufficiency', 'metadata:distance,lower=true')
    """
    if not name.startswith(f"{MIX}:"):
        return ()
    names = tuple(name.removeprefix(f"{MIX}:").split("+"))
    if not 2 <= len(names) <= MOST_PARTS or "" in names or len({*names}) < len(names):
        raise InputError(
            f"is no mix of two to {MOST_PARTS} different scorers",
            where=name,
            hint="e.g. mix:sufficiency+metadata:relevance_score+ms-marco",
        )
    return names


def load_scorer(name: str | Fingerprint, **options: Unpack[_LoadOptions]) -> RelevanceScorer:
    """The scorer called `name`, or the one in the folder `name`, or a Hugging Face model.

    Users add scorers with `register_scorer(NAME, FACTORY)` or as its decorator, installed packages
    by the entry points `knowgate.scorers`; `python:module:attribute` names a factory. A name that
    ends in a colon is a prefix: `load_scorer("mine:REST")` then calls the factory with "REST",
    others are called with nothing.

    A folder that `export_scorer` wrote gives the scorer that was exported, in ONNX
    Runtime and in its own dtype; one that `knowgate tune relevance` wrote a
    `SufficiencyScorer`; one of a model that reads question and passage together (reranker,
    natural language inference, extractive reader, instruct reranker) a cross-encoder; any
    other a bi-encoder. `hf:` and a folder, a name in `PRESETS` or a hub id
    (`hf:OWNER/NAME`, `hf:OWNER/NAME@REVISION`) gives the scorer of that model. Only a hub id
    is looked for on the hub, unless HF_HUB_OFFLINE is set. `metadata:KEY` gives the number that
    each passage carries in its metadata; `metadata:KEY,lower=true` where a low one is good.
    `mix:NAME+NAME` is a mix of scorers, whose weights the policy has; `strict:NAME` the strict
    reading that a cascade may compare with (`sufficiency` and tuned ones have one).

    Args:
        name: of a registered scorer, or a path; options may follow after commas, so that
            every command can state them: `sufficiency,device=cpu,dtype=int8`. What follows
            a registered prefix is the prefix's own. For the
            scorer of a policy its fingerprint: what a file says must not choose what is loaded
            from the disk, so this gives a registered scorer only, in the policy's dtype.
        options: `device` (`auto`, `cpu`, `cuda`, `cuda:N`) and `dtype` (`float32`, `int8` for
            bundled scorers, `bfloat16` and `float16` for models of Hugging Face); `passages`, a
            folder that `knowgate index` wrote for this scorer.

    Raises:
        InputError: it is neither a known name nor a folder, or does not take the options.
        ModelFolderError: a folder is damaged, or its passages are those of another scorer, or
            a model cannot be had from the hub, or `ms-marco` was not downloaded.
        DeviceError: the device is not there.
        MissingDependencyError: a library is not installed.
    """
    if isinstance(name, Fingerprint):
        return _registered(name, options)
    if name.endswith(":") or (name not in _SCORERS and not os.path.isdir(name)):
        prefix, colon, rest = name.partition(":")
        if colon and prefix + colon in _SCORERS:
            _require_none(options, prefix + colon)
            return _SCORERS[prefix + colon](rest)
        name, given = _parted(name)
        options = {**given, **options}
    passages = options.pop("passages", None)
    scorer = _loaded(name, cast(ScorerOptions, options))
    if passages is not None:
        token_encoder(scorer).use_passages(passages)
    return scorer


def _loaded(name: str, options: ScorerOptions) -> RelevanceScorer:
    if _SCORERS.has(name):
        if name in _ENCODER_SCORERS:
            return _ENCODER_SCORERS[name](**options)
        _require_none(options, name)
        made: Any = _SCORERS.find(name)
        made = made() if callable(made) else made
        # What is left to the protocol is not there.
        sets = getattr(type(made), "score_sets", None)
        judges_sets = sets not in (None, SetRelevanceScorer.score_sets)
        require_scorer(made, ["score_sets" if judges_sets else "score_pairs"])
        found: RelevanceScorer = made
        return found
    if name.startswith(_MODEL):
        model = name.removeprefix(_MODEL)
        return _in_folder(PRESETS[model].hub_id if model in PRESETS else model, options)
    if os.path.isdir(name):
        return _in_folder(name, options)
    prefixes = (f"{one}…" for one in _SCORERS if one.endswith(":"))
    raise InputError(
        f"unknown scorer {name!r}",
        hint=f"one of: {', '.join([*scorer_names(), *prefixes])}, a "
        "python:module:attribute, a tuned, exported, sentence-transformers or cross-encoder "
        f"folder, or {_MODEL}ID of a model on the hub",
    )


def _require_none(options: Mapping[str, object], name: str) -> None:
    if options:
        raise InputError(f"the scorer {name!r} takes no options", where=next(iter(options)))


def scorer_name(wanted: Fingerprint) -> str:
    """What `load_scorer` and `--scorer` call the scorer of a policy.

    Raises:
        InputError: it has no name: it lies in a folder, or asks a model.

    Example:
        >>> scorer_name(Fingerprint(kind="lexical"))
        'lexical'
        >>> scorer_name(MetadataScorer("distance", lower=True).fingerprint)
        'metadata:distance,lower=true'
    """
    if wanted.kind == METADATA:
        return MetadataScorer.name_of(wanted)
    loose = _strict_reading_of(wanted)
    if loose is not None:
        return f"strict:{scorer_name(loose)}"
    if wanted.kind == MIX:
        return f"{MIX}:{'+'.join(map(scorer_name, wanted.parts))}"
    options = _options_of(wanted)
    return ",".join([wanted.kind, *(f"{name}={value}" for name, value in options.items())])


def completed_scorer(wanted: Fingerprint, given: RelevanceScorer) -> RelevanceScorer:
    """Return the scorer that a policy wants, where only the costly one of a cascade is given.

    The cheap scorer is then loaded by its name, and the band is the policy's; so are the
    weights of a mix that has none.

    Args:
        wanted: of the policy.
        given: returned as it is, unless `wanted` is a cascade and it is not.

    Raises:
        InputError: the cheap scorer cannot be loaded by its name.
    """
    if wanted.parts and isinstance(given, MixScorer):
        return given.weighted_as(wanted)
    if not wanted.stages or given.fingerprint.kind == CASCADE:
        return given
    return CascadeScorer.of(wanted, load_scorer(wanted.stages[0]), given)


def _registered(wanted: Fingerprint, options: _LoadOptions) -> RelevanceScorer:
    if wanted.kind == METADATA:
        return load_scorer(scorer_name(wanted), **options)
    if wanted.kind == MIX:
        _require_none(options, f"{MIX}:")
        return MixScorer([load_scorer(one) for one in wanted.parts]).weighted_as(wanted)
    loose = _strict_reading_of(wanted)
    if loose is not None:
        return strict_reading(_registered(loose, options))
    given = _options_of(wanted)
    given.update(options)
    return load_scorer(wanted.kind, **given)


def _strict_reading_of(wanted: Fingerprint) -> Fingerprint | None:
    """The scorer that `strict:` stands before; None for another, whatever its name."""
    return None if wanted.kind in _SCORERS.names else read_loosely(wanted)


# What no name alone can load, and what to give instead.
_WITHOUT_NAME = {
    CASCADE: (
        "the policy is of a cascade, whose costly scorer has to be given",
        "pass scorer=COSTLY, e.g. SufficiencyJudge(model), or a CascadeScorer; on the command line "
        "--scorer judge:MODEL",
    ),
    JUDGE: (
        "the policy is of a language model that judges, and names no model to ask",
        "pass scorer=SufficiencyJudge(model), on the command line --scorer judge:MODEL",
    ),
}


def _options_of(wanted: Fingerprint) -> _LoadOptions:
    """The options of a registered scorer.

    Raises:
        InputError: none is registered under its kind.
    """
    if wanted.kind in _WITHOUT_NAME:
        what, hint = _WITHOUT_NAME[wanted.kind]
        raise InputError(what, hint=hint)
    # Also those of installed packages; never `python:`, which a file must not choose.
    if wanted.kind not in _SCORERS.names:
        raise InputError(
            f"no scorer is registered as {wanted.kind!r}",
            hint="pass scorer=load_scorer(FOLDER) for one in a folder (--scorer FOLDER), one of "
            "your own (--scorer python:module:Class), or register it; known: "
            f"{', '.join(scorer_names())}",
        )
    if wanted.kind in _ENCODER_SCORERS and wanted.dtype == "int8":
        return {"dtype": "int8"}
    return {}


def _in_folder(name: str, options: ScorerOptions) -> RelevanceScorer:
    found, reads_pairs = find_model(name)
    name = os.fspath(found)
    exported = exported_as(name)
    if exported is not None:
        if exported not in _EXPORTED:
            raise InputError(
                f"holds a scorer {exported!r}, which is not loaded from an export",
                where=name,
                hint="the bundled scorers compute in int8 without one: sufficiency,dtype=int8",
            )
        return _EXPORTED[exported](name, **options)
    if reads_pairs:
        return CrossEncoderScorer(name, **options)
    # Either of the two, so that a damaged folder is called what it is.
    marks = (SUFFICIENCY_FILE, ADAPTER_CONFIG)
    tuned = any(os.path.isfile(os.path.join(name, mark)) for mark in marks)
    return SufficiencyScorer(name, **options) if tuned else BiEncoderScorer(name, **options)


def _parted(name: str) -> tuple[str, _LoadOptions]:
    """Part `NAME,option=value,…`.

    Raises:
        InputError: an option is not known, or has no value.
    """
    name, *parts = name.split(",")
    options: dict[str, str] = {}
    for part in parts:
        option, _, value = part.partition("=")
        if option not in get_type_hints(_LoadOptions) or not value:
            raise InputError(
                f"{part!r} is no option of a scorer",
                hint="e.g. sufficiency,device=cpu,dtype=int8",
            )
        options[option] = value
    return name, cast(_LoadOptions, options)
