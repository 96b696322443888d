"""Turn prompts into token ids: templates and checks."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Literal

from ..errors import InputError, LanguageModelError, PromptTooLongError, optional_import

# No tokenizer packs this many characters into each token of a whole prompt, so a
# longer prompt is rejected before it is tokenized.
_MOST_CHARACTERS_PER_TOKEN = 1000


class PromptEncoder:
    """Turns prompts into token ids and ids into text; safe to use from several threads.

    A prompt is first rendered: made the whole text that the tokenizer reads. The tokenizer adds its
    own begin token, unless a chat template has already put it in.

    Args:
        tokenizer: a transformers tokenizer.
        window: context window in tokens, None when the model states none.
        vocabulary: rows of the model's embedding; None where ids are not checked.
        chat_template: whether a prompt is wrapped as one user message; `auto`
            when the tokenizer has a template.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        window: int | None = None,
        vocabulary: int | None = None,
        chat_template: bool | Literal["auto"] = "auto",
    ) -> None:
        self.window = window
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._lock = threading.Lock()
        has_template = getattr(tokenizer, "chat_template", None) is not None
        if chat_template is True and not has_template:
            what = "the tokenizer has no chat template"
            raise InputError(what, where="chat_template", hint="use 'auto'")
        self.templated = has_template if chat_template == "auto" else bool(chat_template)
        # A tokenizer trained for encoders may close every text with the end token,
        # after which a language model would begin a new one.
        closed = self.ids_of("a", special=True)
        end = tokenizer.eos_token_id
        self._drops_end = bool(closed) and end is not None and closed[-1] == end

    def render(self, prompt: str) -> str:
        """One prompt, inside the chat template where one is used."""
        message = {"role": "user", "content": prompt}
        return self.render_messages([message]) if self.templated else prompt

    def render_messages(self, messages: Sequence[dict[str, str]]) -> str:
        """A conversation: by the chat template, otherwise contents joined by a blank line."""
        if not self.templated:
            return "\n\n".join(message["content"] for message in messages)
        jinja2 = optional_import("jinja2")

        try:
            text: str = self._tokenizer.apply_chat_template(
                list(messages),
                tokenize=False,
                add_generation_prompt=True,
            )
        except jinja2.TemplateError as error:
            what = f"the chat template rejects these messages: {error}"
            raise LanguageModelError(what) from error
        return text

    def encode(self, prompts: Sequence[str]) -> list[list[int]]:
        """Token ids of each prompt; all prompts are checked first.

        Raises:
            LanguageModelError: a prompt is not valid text, or gives no tokens.
            PromptTooLongError: a prompt leaves no room for an answer token.
        """
        return [self._encode_one(number, prompt) for number, prompt in enumerate(prompts)]

    def _encode_one(self, number: int, prompt: str) -> list[int]:
        check_text(prompt, f"prompt {number}")
        if self.window and len(prompt) > self.window * _MOST_CHARACTERS_PER_TOKEN:
            raise self._too_long(number, f"{len(prompt)} characters")
        ids = self._prompt_ids(prompt)
        if not ids:
            ids = [self._begin_token()]
        if self.window and len(ids) >= self.window:
            raise self._too_long(number, f"{len(ids)} tokens")
        self._check_ids(ids)
        return ids

    def continuation(self, prompt: str, ids: list[int], text: str) -> list[int]:
        """Token ids of `text` as it continues a prompt of token ids `ids`.

        Prompt and continuation are tokenized together, and separately only where the
        tokenizer would merge across the boundary.
        """
        whole = self._prompt_ids(prompt + text)
        rest = whole[len(ids) :] if whole[: len(ids)] == ids else self.ids_of(text)
        self._check_ids(rest)
        return rest

    def text_of(self, ids: Sequence[int]) -> str:
        """The text of generated ids, special tokens left out, spaces as they are."""
        text: str = self._tokenizer.decode(
            list(ids),
            skip_special_tokens=True,
            clean_up_tokenization_spaces=False,
        )
        return text

    def _prompt_ids(self, rendered: str) -> list[int]:
        ids = self.ids_of(rendered, special=not self.templated)
        ends = self._drops_end and not self.templated
        return ids[:-1] if ends and ids[-1:] == [self._tokenizer.eos_token_id] else ids

    def ids_of(self, text: str, *, special: bool = False) -> list[int]:
        """Token ids of plain text, with its begin and end token only where `special`."""
        with self._lock:
            ids: list[int] = self._tokenizer(
                text, add_special_tokens=special, padding=False, truncation=False, verbose=False
            )["input_ids"]
        return list(ids)

    def _begin_token(self) -> int:
        for token in (self._tokenizer.bos_token_id, self._tokenizer.eos_token_id):
            if token is not None:
                return int(token)
        raise LanguageModelError("an empty prompt gives no tokens, and the tokenizer has none")

    def _check_ids(self, ids: list[int]) -> None:
        if self._vocabulary is not None and max(ids, default=0) >= self._vocabulary:
            raise LanguageModelError(
                f"the tokenizer gives token {max(ids)}, but the model knows {self._vocabulary}: "
                "they are of different models"
            )

    def _too_long(self, number: int, size: str) -> PromptTooLongError:
        return PromptTooLongError(
            f"prompt {number} has {size}; the context window holds {self.window} tokens, "
            "of which the answer needs at least one"
        )


def check_text(text: object, what: str) -> None:
    """Reject text that no tokenizer can read.

    Raises:
        LanguageModelError: not a string, or half of a surrogate pair in it.
    """
    if not isinstance(text, str):
        raise LanguageModelError(f"{what} is a {type(text).__name__}, not a string")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        fault = f"{what} is not valid text: a lone surrogate at character {error.start}"
        raise LanguageModelError(fault) from error
