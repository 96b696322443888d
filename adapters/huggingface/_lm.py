"""`HuggingFaceLM`: a transformers causal LM behind the guard's `LanguageModel` protocol."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import numpy as np

from ...guard.contracts import Generation
from ...guard.deadlines import call_on_thread
from ...guard.engine.causal_model import context_window, end_ids
from ...guard.engine.prompt_encoder import PromptEncoder, check_text
from ...guard.errors import InputError, PromptTooLongError
from ...guard.files import json_sha256
from ...guard.process import keep_torch_usable
from ._engine import Engine, Settings
from ._loading import LoadOptions, ModelIdentity, model_identity, open_model
from ._network import Network, run_in_batches
from ._packaged import PACKAGED_MODELS, model_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray


_log = logging.getLogger(__name__)


class CallOptions(TypedDict, total=False):
    """Options of one call; what is left out, or None, is the instance's own."""

    n: int
    temperature: float
    seed: int | None
    stop: Sequence[str] | None
    max_new_tokens: int | None


class HuggingFaceLM:
    """A causal language model from a folder or by hub name.

    One instance serves many threads: forward passes take turns. Weights must be
    safetensors; code that comes with a model is never run.

    Args:
        path_or_name: a folder, or a hub name.
        device: `auto` (CUDA where available), `cpu`, `cuda`, `cuda:N` or `mps`.
        dtype: `auto` (float32 on the CPU, bfloat16 on CUDA devices that have it, as stored
            elsewhere), or a torch name.
        max_new_tokens: the most tokens an answer may have; fewer where the context
            window ends before.
        stop: strings that end an answer and are not part of it.
        batch_size: rows computed at one time, halved when memory runs out; 32 by default.
        adapter: folder of a LoRA adapter in peft's format, merged into the weights.
        loading: chat template, expected hash and download.

    Attributes:
        device: where the model runs, e.g. `cuda:0`.
        dtype: the precision it runs in, e.g. `float32`.
        context_window: tokens that prompt and answer may have together, None when not stated.
        uses_chat_template: whether prompts are wrapped as user messages.

    Raises:
        ModelFolderError: no such model, no weights or tokenizer, a wrong sha256, or an
            invalid adapter or one of another model.
        DeviceError: the device or precision is not available.
        InputError: an argument is out of its range.
    """

    def __init__(
        self,
        path_or_name: str | Path,
        *,
        device: str = "auto",
        dtype: str = "auto",
        max_new_tokens: int = 64,
        stop: Sequence[str] = ("\n",),
        batch_size: int | None = None,
        adapter: str | Path | None = None,
        loading: LoadOptions | None = None,
    ) -> None:
        loading = LoadOptions() if loading is None else loading
        name = str(path_or_name) if adapter is None else f"{path_or_name} + {adapter}"
        self._take_settings(name, max_new_tokens, stop, batch_size)
        model, tokenizer, identity = open_model(path_or_name, device, dtype, adapter, loading)
        self._set_up(model, tokenizer, loading.chat_template, identity)

    @classmethod
    def bundled(cls, name: str = "smollm2", **options: Any) -> HuggingFaceLM:
        """Load a model by name that `knowgate models` has downloaded, or a GGUF file.

        Args:
            name: `smollm2` (SmolLM2-135M-Instruct) or `gguf:FILE`.
            options: as in the constructor.

        Raises:
            InputError: there is no such name.
            ModelFolderError: it is not on this machine, or the file is damaged.
            MissingDependencyError: the package `gguf` is not installed.
        """
        folder = model_folder(name)
        if folder is None:
            what = f"no model is called {name!r}"
            hint = f"one of: {', '.join(sorted(PACKAGED_MODELS))}, or gguf:FILE"
            raise InputError(what, hint=hint)
        return cls(folder, **options)

    @classmethod
    def from_objects(
        cls,
        model: Any,
        tokenizer: Any,
        *,
        name: str = "in-memory",
        max_new_tokens: int = 64,
        stop: Sequence[str] = ("\n",),
        batch_size: int | None = None,
        chat_template: bool | Literal["auto"] = "auto",
    ) -> HuggingFaceLM:
        """Wrap a loaded causal LM, which is put into evaluation mode, and its tokenizer.

        Args:
            model: a transformers causal LM; it stays on its device.
            tokenizer: its tokenizer; it is not changed.
            name: used in messages and metadata.
            max_new_tokens: as in the constructor, like all that follow.
            stop: strings that end an answer.
            batch_size: rows computed at one time.
            chat_template: whether prompts are wrapped.
        """
        self = cls.__new__(cls)
        self._take_settings(name, max_new_tokens, stop, batch_size)
        identity = model_identity(model, tokenizer)
        self._set_up(model.eval(), tokenizer, chat_template, identity)
        return self

    def _take_settings(
        self, name: str, max_new_tokens: int, stop: Sequence[str], batch_size: int | None
    ) -> None:
        own: dict[str, Any] = {} if batch_size is None else {"batch_size": batch_size}
        checked = Settings(**own, max_new_tokens=max_new_tokens, stop=stop)  # type: ignore[arg-type]
        self.name, self.max_new_tokens, self.stop = name, checked.max_new_tokens, checked.stop
        self.batch_size = checked.batch_size

    def _set_up(
        self,
        model: Any,
        tokenizer: Any,
        chat_template: bool | Literal["auto"],
        identity: ModelIdentity,
    ) -> None:
        if getattr(model.config, "is_encoder_decoder", False):
            raise InputError("is an encoder-decoder", where=self.name, hint="use a causal LM")
        window = context_window(model.config)
        encoder = PromptEncoder(
            tokenizer,
            window=window,
            vocabulary=model.get_input_embeddings().weight.shape[0],
            chat_template=chat_template,
        )
        self._model, self._identity = model, identity
        keep_torch_usable()
        ends = frozenset(end_ids(model, tokenizer))
        self.engine = Engine(Network(model, window), encoder, ends)
        self.device, self.context_window = str(model.device), window
        self.dtype = str(model.dtype).removeprefix("torch.")
        self.uses_chat_template = encoder.templated
        _log.info("%s runs on %s in %s", self.name, self.device, self.dtype)

    @property
    def weights_sha256(self) -> str:
        """sha256 of the weights, an adapter aside; computed on first use."""
        return self._identity["weights"]()

    @property
    def fingerprint(self) -> str:
        """Identifies weights, configuration, adapter, tokenizer, precision and settings."""
        parts = {
            **{name: told() for name, told in self._identity.items()},
            "dtype": self.dtype,
            "max_new_tokens": self.max_new_tokens,
            "stop": self.stop,
            "chat_template": self.uses_chat_template,
        }
        return f"huggingface:{json_sha256(parts)}"

    def generate(
        self,
        prompts: Sequence[str],
        **options: Unpack[CallOptions],
    ) -> list[list[Generation]]:
        """Draw `n` answers for each prompt.

        Args:
            prompts: the prompts.
            options: `n`, answers per prompt, 1 by default. `temperature`, by default 0 for the
                greedy answer (computed once, repeated `n` times). `seed`: a sample depends on its
                prompt and on the seed plus its number only, so it stays the same however prompts
                are batched, up to the rounding of the precision; None draws afresh. Sample k is
                the first one of seed + k, so that later waves can continue earlier ones;
                independent sets need seeds at least n apart. No global random state is used.
                `stop`, stop strings, and `max_new_tokens`, each in place of the instance's own.

        Returns:
            One list of `n` generations per prompt. `token_logprobs` has every
            generated token, including the one that ended the answer, so that its sum
            is the log-probability of exactly this answer.

        Raises:
            InputError: an argument is out of its range.
            PromptTooLongError: a prompt leaves no room for an answer.
            LanguageModelError: a prompt is not text, or the model failed.
        """
        settings = self.settings(**options)
        answers = self.engine.complete(self._render(prompts), settings)
        return [
            [
                Generation(self.engine.text(answer, settings.stop), tuple(answer.logprobs))
                for answer in row
            ]
            for row in answers
        ]

    async def agenerate(
        self,
        prompts: Sequence[str],
        **options: Unpack[CallOptions],
    ) -> list[list[Generation]]:
        """As `generate`, in a thread; cancelling it ends the decoding at the next token."""
        return await call_on_thread(lambda: self.generate(prompts, **options))

    def stream(self, prompt: str, **options: Unpack[CallOptions]) -> Iterator[str]:
        """Pieces of one answer as they are generated; joined they are `generate`'s text.

        Raises:
            InputError: `n` is not 1, or another option is not what it should be.
        """
        settings = self.settings(**options)
        if settings.n != 1:
            raise InputError("a stream has one answer", where="n", hint="leave it out")
        [rendered] = self._render([prompt])
        return (piece for piece, _ in self.engine.stream(rendered, settings) if piece)

    def generate_contrastive(
        self,
        with_context: Sequence[str],
        without_context: Sequence[str],
        method: Literal["coiecd", "cad"] = "coiecd",
        *,
        alpha: float = 1.0,
        lam: float = 0.25,
        max_new_tokens: int | None = None,
        stop: Sequence[str] | None = None,
    ) -> list[str]:
        """Greedy answers by contrastive decoding, which favours what the context adds.

        Args:
            with_context: prompts that hold the context.
            without_context: the same questions without it, in the same order.
            method: `coiecd` or `cad`, see `coiecd_scores` and `cad_scores`.
            alpha: strength of the contrast, 0 or more.
            lam: λ of COIECD, in (0, 1].
            max_new_tokens: in place of the instance's own.
            stop: stop strings in place of the instance's own.

        Returns:
            One answer per pair of prompts.

        Raises:
            InputError: lists of different length, or an argument out of its range.
            LanguageModelError: as for `generate`.
        """
        settings = self.settings(stop=stop, max_new_tokens=max_new_tokens)
        prompts, others = self._render(with_context), self._render(without_context)
        if len(prompts) != len(others):
            what = f"has {len(others)} prompts for {len(prompts)} with context"
            raise InputError(what, where="without_context", hint="give one for each")
        answers = self.engine.contrast(prompts, others, (method, alpha, lam), settings)
        return [self.engine.text(answer, settings.stop) for answer in answers]

    def score_options(self, prompts: Sequence[str], options: Sequence[str]) -> NDArray[np.float64]:
        """Log-likelihood of every option after every prompt.

        Args:
            prompts: the prompts, each prefilled once.
            options: continuations as they would be generated, e.g. `" (A)"`.

        Returns:
            Natural-log probabilities of shape (prompts, options): the sum over an
            option's tokens, an end token not counted.

        Raises:
            InputError: no options, or one that is empty.
            PromptTooLongError: a prompt and an option do not fit the context window.
            LanguageModelError: a text cannot be read, or the model failed.
        """
        if isinstance(options, str) or not options:
            raise InputError("is no list of strings", where="options", hint="give at least one")
        network, rendered = self.engine.network, self._render(prompts)
        ids = self.engine.encoder.encode(rendered)
        pairs = [
            (number, self._option_ids(number, prompt, ids[number], option))
            for number, prompt in enumerate(rendered)
            for option in options
        ]
        width = len(options)

        def work(numbers: Sequence[int]) -> list[list[float]]:
            some = [pair for at in numbers for pair in pairs[at * width : (at + 1) * width]]
            sums = network.continuation_logprobs(ids, some)
            return [sums[at * width : (at + 1) * width] for at in range(len(numbers))]

        size = max(1, self.batch_size // width)
        scores = run_in_batches(range(len(ids)), size, work, what=self.device)
        return np.array(scores, dtype=np.float64).reshape(len(ids), width)

    def _option_ids(self, number: int, prompt: str, ids: list[int], option: str) -> list[int]:
        check_text(option, "an option")
        tail = self.engine.encoder.continuation(prompt, ids, option)
        if not tail:
            raise InputError("holds one without tokens", where="options", hint="remove it")
        window = self.context_window
        if window and len(ids) + len(tail) > window:
            raise PromptTooLongError(
                f"prompt {number} and an option have {len(ids) + len(tail)} tokens; "
                f"the context window holds {window}"
            )
        return tail

    def hidden_states(self, prompts: Sequence[str], layer: int) -> NDArray[np.float32]:
        """The hidden state of each prompt's last token, shape (prompts, width).

        Args:
            prompts: the prompts.
            layer: 0 for the embeddings, k for the output of layer k, -1 for the last.

        Raises:
            InputError: the model has no such layer.
        """
        config = self._model.config.get_text_config()
        layers = int(config.num_hidden_layers) + 1
        if not -layers <= layer < layers:
            what = f"{layer} is out of range"
            raise InputError(what, where="layer", hint=f"use -{layers} to {layers - 1}")
        rows = run_in_batches(
            self.engine.encoder.encode(self._render(prompts)),
            self.batch_size,
            lambda batch: self.engine.network.last_hidden_states(batch, layer),
            what=self.device,
        )
        return np.array(rows, dtype=np.float32).reshape(len(prompts), int(config.hidden_size))

    def token_ids(self, text: str) -> list[int]:
        """Token ids of plain text, without begin or end token."""
        check_text(text, "the text")
        return self.engine.encoder.ids_of(text)

    def settings(self, **options: Unpack[CallOptions]) -> Settings:
        """One call's settings, the instance's own where None is given."""
        own = {name: getattr(self, name) for name in ("max_new_tokens", "stop", "batch_size")}
        return Settings(**own | {name: one for name, one in options.items() if one is not None})

    def _render(self, prompts: Sequence[str]) -> list[str]:
        if isinstance(prompts, str):
            raise InputError("is one string", where="prompts", hint="give a list of strings")
        for number, prompt in enumerate(prompts):
            check_text(prompt, f"prompt {number}")
        return [self.engine.encoder.render(prompt) for prompt in prompts]
