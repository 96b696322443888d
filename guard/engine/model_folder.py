"""Model folders: where they are, and what is checked before and while a library reads them.

The files of a model can name code: module types, `auto_map`, kernels from a hub, arguments of
the loaders, pickled weights. Libraries import or run some of it on loading. A folder is
rejected that names any code but the few classes that are known to be data only; Python files
that lie in it are never looked at.

Libraries also believe the configuration: a number in it decides how many layers are built and
how much memory is taken. So files have to be whole and to fit each other before anything large
is made.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..deadlines import DeadlineRunner
from ..errors import DeadlineExceededError, KnowgateError, ModelFolderError, optional_import
from ..files import file_sha256, json_sha256, read_json, table_beside
from ..model_files import ADAPTER_CONFIG, WEIGHTS

# What a download may fetch: weights, settings and tokenizer files, no code and no pickles.
_DOWNLOADED = ["*.safetensors", "*.json", "*.txt", "*.model", "*.jinja"]
# What is a file name anywhere else cannot be an id: no leading dot, no backslash, one slash.
_HUB_ID = re.compile(
    r"(?P<model>(?P<owner>[A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*)(@(?P<revision>[A-Za-z0-9][\w./-]*))?"
)
# Until the hub answers, and until all of a model is there.
_ANSWER_SECONDS = 10.0
_DOWNLOAD_SECONDS = 1800.0
# What folders of models may name, and what is rejected in them.
KNOWN: dict[str, Any] = table_beside(__file__, "model_settings.toml")
MODULES_FILE = "modules.json"
# The last part of an architecture's name, with the class of transformers that loads it.
CLASSIFIER, READER, INSTRUCT = "SequenceClassification", "QuestionAnswering", "CausalLM"
PAIR_MODELS = (CLASSIFIER, READER, INSTRUCT)
_LOADER_KEYS = ("config", "model", "processor", "tokenizer")
_TRANSFORMER = "Transformer"
_WITH_WEIGHTS = frozenset({"Dense", "LayerNorm"})
_ACTIVATION = re.compile(
    r"torch\.nn\.modules\.(activation\.(ELU|GELU|LeakyReLU|Mish|ReLU|ReLU6|SELU|SiLU|Sigmoid|Tanh)"
    r"|linear\.Identity)"
)


def model_folder(model: str | os.PathLike[str], *, bare: bool = False, local: bool = False) -> Path:
    """The folder `model`, or that of a model from the hub.

    With HF_HUB_OFFLINE set, only models that were downloaded before are found. A folder by
    that name always comes before the hub.

    Args:
        model: a folder, or a hub id `OWNER/NAME`, with `@REVISION` where one is asked for.
        bare: whether a hub id may lack its owner, as `gpt2` does.
        local: whether only models are found that were downloaded before.

    Raises:
        ModelFolderError: it is neither, or the download takes longer than half an hour.
    """
    if os.path.isdir(model):
        return Path(model)
    found = _HUB_ID.fullmatch(os.fspath(model))
    if found is None or not (bare or found["owner"]) or os.path.isfile(model):
        what = "neither a model folder nor a hub id"
        hint = "check the path; a hub id is OWNER/NAME, or OWNER/NAME@REVISION"
        raise ModelFolderError(what, where=os.fspath(model), hint=hint)
    return _downloaded(found["model"], found["revision"], local)


def _downloaded(model: str, revision: str | None, local: bool) -> Path:
    """The folder of a model of the hub, downloaded where it is not there yet."""
    hub = optional_import("huggingface_hub")
    download = partial(
        hub.snapshot_download,
        model,
        revision=revision,
        allow_patterns=_DOWNLOADED,
        etag_timeout=_ANSWER_SECONDS,
        local_files_only=local,
    )
    try:
        # A connection that stands still keeps no process from ending.
        return Path(DeadlineRunner(1).call(download, _DOWNLOAD_SECONDS))
    except DeadlineExceededError:
        raise ModelFolderError(
            f"not downloaded within {_DOWNLOAD_SECONDS:.0f} s",
            where=model,
            hint="try again: what has arrived is kept; or download the model first",
        ) from None
    except Exception as error:  # noqa: BLE001 - the hub library raises many kinds
        names = [kind.__name__ for kind in type(error).__mro__]
        raise ModelFolderError(
            f"neither a model folder nor a model that can be had from the hub ({names[0]})",
            where=model,
            hint=next(
                (hint for name, hint in KNOWN["hub_hints"].items() if name in names),
                "check the path, or download the model first",
            ),
        ) from None


def require_no_code(folder: Path) -> None:
    """Reject a model folder whose configuration names code, before a library reads it.

    Raises:
        ModelFolderError: naming the file and the setting.
        InputError: a configuration file is not JSON.
    """
    if (folder / ADAPTER_CONFIG).exists():
        what = "holds an adapter beside the model, which would take its place"
        hint = f"merge the adapter, or move {ADAPTER_CONFIG} to a folder of its own"
        raise _rejected(folder, what, hint)
    for path in sorted(folder.glob("*config*.json")):
        for key, value in settings_of(read_json(path)):
            named = key in KNOWN["fields"]["code"] and bool(value)
            if named or (key in KNOWN["fields"]["attention"] and "/" in json.dumps(value)):
                raise _rejected(path, f"names code to load (field {key!r})")


def encoder_parts(folder: Path) -> list[Path]:
    """Check a sentence-transformers folder, and return the folders of its modules.

    Raises:
        ModelFolderError: a module is of a type that is not known, lies outside the folder, has
            no safetensors weights, or is given arguments that could load code.
        InputError: a configuration file is not JSON.
    """
    require_no_code(folder)
    path = folder / "config_sentence_transformers.json"
    if path.is_file():
        kind = json_fields(path).get("model_type")
        if kind not in (None, "SentenceTransformer"):
            raise _rejected(path, f"describes a {kind}, not a SentenceTransformer")
    for path in sorted(folder.glob("sentence_*_config.json")):
        _require_plain_arguments(path)
    path = folder / MODULES_FILE
    return _modules(path) if path.is_file() else [folder]


def require_pair_modules(folder: Path, words: tuple[int, int] | None) -> None:
    """Reject a cross-encoder whose number is not that of its model alone.

    Args:
        folder: as sentence-transformers writes it, or without its files.
        words: ids of the words for yes and no that a language model is asked for, None for a
            model of another kind.

    Raises:
        ModelFolderError: there is a module beyond the model, or other words count.
        InputError: a configuration file is not JSON.
    """
    path = folder / MODULES_FILE
    modules = read_json(path) if path.is_file() else []
    if not isinstance(modules, list) or not all(isinstance(one, dict) for one in modules):
        raise _rejected(path, "is not a list of modules")
    for module in modules:
        kind = str(module.get("type")).rpartition(".")[2]
        if kind == _TRANSFORMER and module.get("path") == "":
            continue
        if kind != "LogitScore" or words is None:
            raise _rejected(path, f"has a module {kind!r} beyond the model")
        if not re.fullmatch(r"[A-Za-z0-9_-]+", str(module.get("path"))):
            raise _rejected(path, f"has the path {module.get('path')!r}")
        own = json_fields(folder / module["path"] / "config.json")
        if (own.get("true_token_id"), own.get("false_token_id")) != words:
            raise _rejected(path, "compares other words than the template of its family")


_CONFIGURATION = (".json", ".txt", ".model", ".jinja")
# Of configuration files: who wrote them.
_PROVENANCE = frozenset({"__version__", "_name_or_path", "transformers_version"})


def _content_sha256(path: Path) -> str:
    if path.suffix != ".json" or "config" not in path.name:
        return file_sha256(path)
    value = read_json(path)
    if isinstance(value, dict):
        value = {name: one for name, one in value.items() if name not in _PROVENANCE}
    return json_sha256(value)


def json_fields(path: Path) -> dict[str, Any]:
    """What a JSON file holds, as far as it is an object."""
    value = read_json(path)
    return value if isinstance(value, dict) else {}


def settings_of(value: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a JSON value and of all objects in it."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield from one.items()
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)


def _require_plain_arguments(path: Path) -> None:
    for key, value in settings_of(read_json(path)):
        name, _, rest = key.rpartition("_")
        if rest in ("args", "kwargs") and name in _LOADER_KEYS and value:
            given = value if isinstance(value, dict) else {"?": value}
            unknown = sorted(given.keys() - set(KNOWN["fields"]["arguments"]))
            if unknown:
                raise _rejected(path, f"has an argument that is not known ({key}.{unknown[0]})")
        elif key == "tokenizer_name_or_path" and value:
            raise _rejected(path, "takes its tokenizer from elsewhere")
        elif key == "method" and value != "forward":
            raise _rejected(path, f"calls the method {value!r}, not 'forward'")


def _modules(path: Path) -> list[Path]:
    found = read_json(path)
    if not isinstance(found, list) or not found:
        raise _rejected(path, "is not a list of modules")
    parts: list[Path] = []
    for place, module in enumerate(found):
        fields = module if isinstance(module, dict) else {}
        named, where = fields.get("type"), fields.get("path")
        kind = KNOWN["modules"].get(named) if isinstance(named, str) else None
        if kind is None:
            raise _rejected(path, f"module type {named!r} is not one of those that are loaded")
        # The transformer comes first and lies in the folder itself, the others below it.
        plain = isinstance(where, str) and re.fullmatch(r"[A-Za-z0-9_-]*", where) is not None
        if not plain or (kind == _TRANSFORMER) != (place == 0) or (place == 0) != (where == ""):
            raise _rejected(
                path, f"module {place} ({kind}) has the path {where!r}, or is out of place"
            )
        part = path.parent / str(where)
        if kind in _WITH_WEIGHTS:
            _require_weights(part, kind)
        if part.is_dir():
            parts.append(part)
    return parts


def _require_weights(part: Path, kind: str) -> None:
    if not (part / WEIGHTS).is_file():
        what = f"no {WEIGHTS} for the module {kind}; pickled weights are not loaded"
        raise _rejected(part, what, "save the model as safetensors")
    activation = json_fields(part / "config.json").get("activation_function")
    if activation is not None and not _ACTIVATION.fullmatch(str(activation)):
        what = f"activation {activation!r} is not one of those that are loaded"
        raise _rejected(part / "config.json", what)


_PLAIN = "use a model of plain modules; code from model folders is never loaded"


def _rejected(path: Path, what: str, hint: str = _PLAIN) -> ModelFolderError:
    return ModelFolderError(what, where=str(path), hint=hint)


# Fields that say how many modules there are: each has tensors of its own.
_COUNTS = re.compile(r"(n|(num_)?(hidden|encoder|decoder)|num)_(layers?|blocks?)|depth")
# Fields whose number is a dimension of some tensor.
_WIDTHS = frozenset({"d_model", "hidden_size", "n_embd", "vocab_size"})
_LARGEST = 1 << 31
_DAMAGED = "get the folder again: it is damaged, or its files are of different models"


@contextlib.contextmanager
def quiet_loading() -> Iterator[None]:
    """Switch transformers' progress bar for weights off, and on again if it was on."""
    logging = optional_import("transformers").utils.logging
    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()


def find_model(model: str | os.PathLike[str]) -> tuple[Path, bool]:
    """The folder of a model, and whether it reads question and passage together.

    Args:
        model: a folder, or a hub id, which is downloaded where it is not there yet.

    Raises:
        ModelFolderError: it is neither.
        InputError: its configuration is not JSON.
    """
    folder = model_folder(model)
    config, modules = (
        read_json(path) if path.is_file() else None
        for path in (folder / "config.json", folder / MODULES_FILE)
    )
    kinds = config.get("architectures") if isinstance(config, dict) else None
    parts = modules if isinstance(modules, list) else []
    # Embedding models have the architecture of the language model that they came from.
    pools = any(str(one.get("type")).endswith("Pooling") for one in parts if isinstance(one, dict))
    return folder, not pools and pair_model(kinds) is not None


def require_sound(folder: Path, weights: Sequence[Path]) -> None:
    """Reject a folder that names code, or whose files are damaged or do not fit each other.

    Args:
        weights: all safetensors files of the model.

    Raises:
        ModelFolderError: naming the file, and the setting.
        InputError: a configuration file is not JSON.
    """
    require_no_code(folder)
    shapes = [shape for path in weights for shape in _shapes(path)]
    widths = {width for shape in shapes for width in shape}
    path = folder / "config.json"
    config = read_json(path)
    if not isinstance(config, dict):
        raise _rejected(path, "is not a JSON object", _DAMAGED)
    packed = bool(config.get("quantization_config"))
    for name, value in _numbers(config):
        limit = len(shapes) if _COUNTS.fullmatch(name) else _LARGEST
        missing = name in _WIDTHS and not packed and value not in widths
        if value > limit or missing or (value < 1 and name.endswith("heads")):
            what = f"{name} is {value}, which the weights do not have"
            raise _rejected(path, what, _DAMAGED)


@contextlib.contextmanager
def reading(folder: Path, what: str, hint: str) -> Iterator[None]:
    """Load without progress bars; whatever a library raises becomes one error.

    Errors of knowgate, a device without memory, and a missing package pass as they are.

    Args:
        what: it cannot be, as a phrase.
        hint: for the error.

    Raises:
        ModelFolderError: something was raised.
    """
    torch = optional_import("torch")
    try:
        with quiet_loading():
            yield
    except (KnowgateError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        detail = f"{what} ({type(error).__name__})"
        raise ModelFolderError(detail, where=str(folder), hint=hint) from error


def require_all_tensors(folder: Path, report: dict[str, Any]) -> None:
    """Reject a model of which transformers drew tensors at random.

    Args:
        report: of `from_pretrained`, as `output_loading_info` gives it.

    Raises:
        ModelFolderError: tensors are missing.
    """
    if missing := sorted(report["missing_keys"]):
        what = f"the weights lack {len(missing)} tensors, e.g. {missing[0]}"
        hint = "check that config.json and the weights belong together"
        raise ModelFolderError(what, where=str(folder), hint=hint)


def require_length(folder: Path, value: Any) -> int:
    """Return how many word pieces a model reads, as its folder says it.

    Raises:
        ModelFolderError: that is no positive number.
    """
    try:
        length = int(value)
    except (TypeError, ValueError, OverflowError):
        length = 0
    if length < 1:
        what = "the most word pieces that it reads are no positive number"
        raise _rejected(folder, what, _DAMAGED)
    return length


def configuration_sha256(folder: Path, parts: Sequence[Path] = ()) -> str:
    """Hash whatever in the folder changes the model's numbers, but for the weights file.

    JSON is hashed by its content without the names and versions of what wrote it, other
    files by their bytes; file names count.

    Args:
        parts: folders of its modules, whose weights count too.
    """
    lines: list[str] = []
    for part in dict.fromkeys([folder, *parts]):
        for path in sorted(part.iterdir()):
            weights = path.suffix == ".safetensors" and part != folder
            if path.is_file() and (weights or path.suffix in _CONFIGURATION):
                name = f"{part.relative_to(folder)}/{path.name}"
                lines.append(f"{name} {_content_sha256(path)}")
    return hashlib.sha256("\n".join(lines).encode("utf-8")).hexdigest()


def require_sound_part(folder: Path, weights: Path) -> None:
    """Reject the configuration of a layer whose sizes its own weights do not have.

    Raises:
        ModelFolderError: naming the file, and the field.
        InputError: the configuration is not JSON.
    """
    widths = {width for shape in _shapes(weights) for width in shape}
    path = folder / "config.json"
    for name, value in _numbers(read_json(path)):
        if value not in widths:
            what = f"{name} is {value}, which the weights do not have"
            raise _rejected(path, what, _DAMAGED)


def _numbers(config: Any) -> Iterator[tuple[str, int]]:
    """The whole numbers of a configuration, each with its field."""
    for name, value in settings_of(config):
        if isinstance(value, int) and not isinstance(value, bool):
            yield name, value


def _shapes(path: Path) -> list[tuple[int, ...]]:
    library = optional_import("safetensors")
    try:
        with library.safe_open(str(path), framework="np") as tensors:
            found = [tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()]  # noqa: SIM118
    except Exception as error:  # noqa: BLE001 - safetensors has an error class of its own
        what = f"cannot be read as safetensors ({type(error).__name__})"
        raise _rejected(path, what, _DAMAGED) from None
    if not found:
        raise _rejected(path, "holds no tensor", _DAMAGED)
    return found


def pair_model(architectures: Any) -> str | None:
    """Which of `PAIR_MODELS` the architectures of a configuration name."""
    names = architectures if isinstance(architectures, list) else []
    pairs = ((str(name), kind) for name in names for kind in PAIR_MODELS)
    return next((kind for name, kind in pairs if name.endswith(f"For{kind}")), None)


def weights_file(folder: Path) -> Path:
    """The single safetensors file of a model folder.

    Raises:
        ModelFolderError: the folder is missing, or has no or several weights files.
    """
    if not folder.is_dir():
        raise _rejected(folder, "no such model folder", "check the path")
    weights = folder / WEIGHTS
    if not weights.is_file():
        what = f"no {WEIGHTS} in the model folder; pickled weights are not loaded"
        raise _rejected(folder, what, "save the model as one safetensors file")
    return weights
