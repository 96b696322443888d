"""Model folders that try to run code, and model folders that were changed after calibration."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.guard import Guard, InputError, Policy
from knowgate.guard.errors import KnowgateError
from knowgate.guard.policy import IdentityCalibrator
from knowgate.guard.signals.conflict import CrossEncoderEntailment
from knowgate.guard.signals.relevance import load_scorer

from .outcome import Outcome, tally
from .tiny_models import change_json, tiny_encoder, tiny_entailment_model, write_json

CANARY = "canary_of_the_attack"
_CODE = f"""
import pathlib
pathlib.Path(__file__).with_name("executed").touch()
class Payload:
    pass
Payload.load = classmethod(lambda cls, *args, **kwargs: cls())
Payload.from_pretrained = Payload.load
{CANARY.upper()} = Payload
"""
_MAP = {"auto_map": {"AutoModel": f"{CANARY}.Payload", "AutoConfig": f"{CANARY}.Payload"}}
_TOKENIZER_MAP = {"auto_map": {"AutoTokenizer": [f"{CANARY}.Payload", f"{CANARY}.Payload"]}}

Change = Callable[[Path], None]


def _module(place: int, **fields: str) -> Change:
    def change(folder: Path) -> None:
        path = folder / "modules.json"
        modules = json.loads(path.read_text(encoding="utf-8"))
        modules[place] = {**modules[place], **fields}
        write_json(path, modules)

    return change


def _json(name: str, **fields: object) -> Change:
    return lambda folder: change_json(folder / name, **fields)


def _pickled(part: str, *, remove: bool = True) -> Change:
    def change(folder: Path) -> None:
        if remove:
            (folder / part / "model.safetensors").unlink()
        # A pickle that calls exec; written by hand, since nothing here needs pickle.
        code = f"open({str(folder / 'executed')!r}, 'w').close()"
        for name in ("pytorch_model.bin", "model.pt", "adapter_model.bin"):
            (folder / part / name).write_bytes(
                b"cbuiltins\nexec\n(V" + code.encode("ascii") + b"\ntR."
            )

    return change


def _all(*changes: Change) -> Change:
    def change(folder: Path) -> None:
        for one in changes:
            one(folder)

    return change


_MODULES = "sentence_transformers.sentence_transformer.modules"
_ARGUMENTS = {"trust_remote_code": True}
HOSTILE_ENCODERS: dict[str, Change] = {
    "module type of the standard library": _module(1, type="os.path"),
    "module type in a file of the folder": _module(1, type=f"{CANARY}.Payload"),
    "module type by a dotted name of the folder": _module(1, type=f"{CANARY}.sub.Payload"),
    "module type elsewhere in the library": _module(
        1, type="sentence_transformers.util.misc.import_from_string"
    ),
    "module type that reads pickles": _all(_module(1, type=f"{_MODULES}.LSTM"), _pickled("")),
    "module type that imports its tokenizer": _module(0, type=f"{_MODULES}.WordEmbeddings"),
    "module outside of the folder": _module(1, path="../elsewhere"),
    "weights of a module elsewhere": _module(0, path="2_Dense"),
    "auto_map in config.json": _json("config.json", **_MAP),
    "auto_map in a nested configuration": _json("config.json", text_config=_MAP),
    "auto_map in tokenizer_config.json": _json("tokenizer_config.json", **_TOKENIZER_MAP),
    "auto_map in processor_config.json": _json("processor_config.json", **_MAP),
    "loader arguments trust code": _all(
        _json("sentence_bert_config.json", model_args=_ARGUMENTS, config_args=_ARGUMENTS),
        _json("config.json", **_MAP),
    ),
    "loader arguments allow pickles": _json(
        "sentence_bert_config.json", model_kwargs={"weights_only": False, "gguf_file": "x"}
    ),
    "a kernel from a hub": _json("config.json", attn_implementation="someone/kernel"),
    "kernels by loader arguments": _json(
        "sentence_bert_config.json", model_args={"attn_implementation": "someone/kernel"}
    ),
    "a method of the model": _json(
        "sentence_bert_config.json", modality_config={"text": {"method": "push_to_hub"}}
    ),
    "a tokenizer elsewhere": _json("sentence_bert_config.json", tokenizer_name_or_path="/tmp"),
    "activation by a dotted name": _json(
        "2_Dense/config.json", activation_function=f"{CANARY}.Payload"
    ),
    "activation that torch would import": _json(
        "2_Dense/config.json", activation_function="torch.utils.cpp_extension.load"
    ),
    "pickled weights": _pickled(""),
    "pickled weights of a module": _pickled("2_Dense"),
    "an adapter beside the model": _all(
        _json("adapter_config.json", peft_type="LORA", base_model_name_or_path="/tmp"),
        _pickled("", remove=False),
    ),
    "another kind of model": _json(
        "config_sentence_transformers.json", model_type="MultiVectorEncoder"
    ),
}
HOSTILE_CLASSIFIERS: dict[str, Change] = {
    name: HOSTILE_ENCODERS[name]
    for name in (
        "auto_map in config.json",
        "auto_map in tokenizer_config.json",
        "a kernel from a hub",
        "pickled weights",
        "an adapter beside the model",
    )
}
# What changes a vector without touching the weights of the transformer.
CHANGED_ENCODERS: dict[str, Change] = {
    "pooling": _json(
        "1_Pooling/config.json", pooling_mode_mean_tokens=False, pooling_mode_cls_token=True
    ),
    "no normalisation": lambda folder: write_json(
        folder / "modules.json",
        json.loads((folder / "modules.json").read_text(encoding="utf-8"))[:3],
    ),
    "layer norm": _json("config.json", layer_norm_eps=0.5),
    "activation of the transformer": _json("config.json", hidden_act="relu"),
    "activation of the dense layer": _json(
        "2_Dense/config.json", activation_function="torch.nn.modules.linear.Identity"
    ),
    "weights of the dense layer": lambda folder: _negated(folder / "2_Dense" / "model.safetensors"),
    "prompts": _json(
        "config_sentence_transformers.json",
        prompts={"query": "a dog can swim"},
        default_prompt_name="query",
    ),
    "maximum length": _json("sentence_bert_config.json", max_seq_length=8),
    "tokenizer": lambda folder: _swapped(folder / "tokenizer.json"),
    "marks of the tokenizer": _json("tokenizer_config.json", cls_token="[MASK]"),
}


def _negated(path: Path) -> None:
    from safetensors.torch import load_file, save_file

    save_file({name: -tensor for name, tensor in load_file(path).items()}, path)


def _swapped(path: Path) -> None:
    value = json.loads(path.read_text(encoding="utf-8"))
    words = value["model"]["vocab"]
    words["library"], words["dog"] = words["dog"], words["library"]
    write_json(path, value)


class Workshop:
    """Folders to attack with; the folder of the canary can be imported from.

    Args:
        folder: to work in.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.encoder = tiny_encoder(folder / "encoder")
        self.classifier = tiny_entailment_model(folder / "classifier")
        self._made = 0

    def copy(self, original: Path, change: Change) -> Path:
        """A changed copy of a model folder, with a Python file in it."""
        self._made += 1
        copy = Path(shutil.copytree(original, self._folder / f"copy{self._made}"))
        (copy / f"{CANARY}.py").write_text(_CODE, encoding="utf-8")
        change(copy)
        return copy

    def runs(self, load: Callable[[Path], object], folder: Path) -> bool:
        """Whether loading a hostile folder ran its code, or was not rejected in one line."""
        sys.path.insert(0, str(folder))
        try:
            load(folder)
        except KnowgateError as error:
            rejected = "\n" not in str(error)
        except Exception:  # noqa: BLE001 - whatever the library raised is no clear rejection
            rejected = False
        else:
            rejected = False
        finally:
            sys.path.remove(str(folder))
        imported = sys.modules.pop(CANARY, None) is not None
        return imported or (folder / "executed").exists() or not rejected


def attacks(folder: Path, full: bool) -> Iterator[Outcome]:
    """Load hostile folders, folders changed after calibration, and policies that name one."""
    del full  # all of them are cheap
    shop = Workshop(folder)
    cases = [(name, shop.copy(shop.encoder, one)) for name, one in HOSTILE_ENCODERS.items()]
    yield tally(
        "scorer folder that names code, or brings pickles",
        cases,
        lambda one: shop.runs(lambda path: load_scorer(str(path)), one),
    )
    cases = [(name, shop.copy(shop.classifier, one)) for name, one in HOSTILE_CLASSIFIERS.items()]
    yield tally(
        "entailment model that names code, or brings pickles",
        cases,
        lambda one: shop.runs(CrossEncoderEntailment, one),
    )
    yield tally(
        "language model that names code, or brings pickles",
        cases,
        lambda one: shop.runs(HuggingFaceLM, one),
    )
    yield _changed(shop)
    yield _named(shop, folder)


def policy_of(folder: Path) -> Policy:
    """A policy for the scorer in a folder."""
    return Policy.for_scorer(
        load_scorer(str(folder)), threshold=0.5, calibrator=IdentityCalibrator()
    )


def _changed(shop: Workshop) -> Outcome:
    policy = policy_of(shop.encoder)
    same = shop.copy(shop.encoder, _json("config.json", transformers_version="4.0.0"))
    # The folder itself is still accepted, whoever wrote it.
    Guard(policy, scorer=load_scorer(str(same)), metrics=False)

    def accepted(folder: Path) -> bool:
        try:
            Guard(policy, scorer=load_scorer(str(folder)), metrics=False)
        except InputError as error:
            return "knowgate calibrate" not in str(error)
        return True

    cases = [(name, shop.copy(shop.encoder, one)) for name, one in CHANGED_ENCODERS.items()]
    return tally("scorer folder changed after calibration", cases, accepted)


def _named(shop: Workshop, folder: Path) -> Outcome:
    """Policies whose scorer is called like a folder."""
    policy = policy_of(shop.encoder)
    hostile = shop.copy(shop.encoder, HOSTILE_ENCODERS["module type in a file of the folder"])

    def loads(name: str) -> bool:
        scorer = policy.scorer.model_copy(update={"kind": name})
        path = folder / "policy.json"
        policy.model_copy(update={"scorer": scorer}).save(path)
        return shop.runs(lambda _: Guard.load(path, metrics=False), hostile)

    names = (str(hostile), str(shop.encoder), f"{hostile}/.", hostile.name)
    return tally("policy that names a folder as its scorer", [(one, one) for one in names], loads)
