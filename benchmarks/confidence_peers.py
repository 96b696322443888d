"""lm-polygraph and uqlm as `confidence.py` asks them: the same weights, prompts and n.

Neither is needed by knowgate; whichever is not installed is left out. Their own code does the
generating and the arithmetic. Where they would load an NLI model to tell which answers mean the
same, both get knowgate's rule for equal answers in its place, so that nothing is timed but the
estimators and their sampling.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.guard.matching import canonical_answer

Estimate = Callable[[Sequence[str]], list[float]]


@dataclass(frozen=True)
class Peer:
    """A peer with its estimators: its name, ours of the same kind, and prompts → confidence."""

    name: str
    version: str
    estimators: list[tuple[str, str, Estimate]]


def installed_peers(lm: HuggingFaceLM, n: int) -> list[Peer]:
    found = []
    for name, make in (("lm-polygraph", polygraph), ("uqlm", uqlm)):
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        found.append(Peer(name, version, make(lm, n)))
    return found


def polygraph(lm: HuggingFaceLM, n: int) -> list[tuple[str, str, Estimate]]:
    from lm_polygraph.defaults.register_default_stat_calculators import (
        register_default_stat_calculators,
    )
    from lm_polygraph.estimators import (
        MaximumSequenceProbability,
        Perplexity,
        SemanticEntropy,
    )
    from lm_polygraph.utils.builder_enviroment_stat_calculator import (
        BuilderEnvironmentStatCalculator,
    )
    from lm_polygraph.utils.dataset import Dataset
    from lm_polygraph.utils.manager import UEManager

    model = polygraph_model(lm)

    def run(estimator: Any, *, lean: bool = False) -> Estimate:
        def estimate(prompts: Sequence[str]) -> list[float]:
            calculators = register_default_stat_calculators(
                "Whitebox", output_attentions=not lean, output_hidden_states=not lean
            )
            for calculator in calculators:
                if calculator.name == "SemanticMatrixCalculator":
                    calculator.builder = __name__
            manager = UEManager(
                Dataset(list(prompts), [""] * len(prompts), batch_size=lm.batch_size),
                model,
                [estimator],
                builder_env_stat_calc=BuilderEnvironmentStatCalculator(model),
                available_stat_calculators=calculators,
                generation_metrics=[],
                ue_metrics=[],
                processors=[],
                ignore_exceptions=False,
                verbose=False,
                max_new_tokens=lm.max_new_tokens,
            )
            manager()
            return [-float(value) for value in manager.estimations["sequence", str(estimator)]]

        return estimate

    sequence, mean = MaximumSequenceProbability(), Perplexity()
    empirical = SemanticEntropy(class_probability_estimation="frequency")
    return [
        ("MaximumSequenceProbability", "token_probability sequence", run(sequence)),
        ("the same, no attentions kept", "token_probability sequence", run(sequence, lean=True)),
        ("Perplexity", "token_probability mean", run(mean)),
        ("the same, no attentions kept", "token_probability mean", run(mean, lean=True)),
        ("SemanticEntropyEmpirical", "semantic_entropy discrete", run(empirical)),
        ("the same, no attentions kept", "semantic_entropy discrete", run(empirical, lean=True)),
        ("SemanticEntropy", "semantic_entropy likelihood", run(SemanticEntropy())),
    ]


def polygraph_model(lm: HuggingFaceLM) -> Any:
    """lm-polygraph's view of the very network that `lm` runs."""
    from lm_polygraph.utils.generation_parameters import GenerationParameters
    from lm_polygraph.utils.model import WhiteboxModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # Attentions can only be kept by the eager implementation, so it has weights of its own.
    network = AutoModelForCausalLM.from_pretrained(lm.name, attn_implementation="eager").eval()
    network.to(lm.device)
    tokenizer = AutoTokenizer.from_pretrained(lm.name, padding_side="left")
    # The cut at the end of an answer follows the tokenizer, so it must name the model's own.
    end = network.generation_config.eos_token_id
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(end if isinstance(end, int) else end[0])
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    return WhiteboxModel(
        network,
        tokenizer,
        model_path=lm.name,
        generation_parameters=GenerationParameters(top_k=0),
    )


def load_stat_calculator(config: Any, environment: Any) -> Any:
    """What lm-polygraph builds in the place of its NLI calculator (it asks for this name)."""

    def calculate(dependencies: Any, *_: Any, **__: Any) -> dict[str, Any]:
        texts = dependencies["sample_texts"]
        matrix = equal_matrix(texts, len(texts[0]))
        return {"semantic_matrix_classes": matrix, "entailment_id": 1}

    return calculate


def equal_matrix(rows: Sequence[Sequence[str]], n: int) -> Any:
    """1 where two samples of a question are equal after normalisation, shape (questions, n, n)."""
    matrix = np.zeros((len(rows), n, n), dtype=int)
    for number, texts in enumerate(rows):
        forms = [canonical_answer(text) for text in texts]
        for i, first in enumerate(forms):
            for j, second in enumerate(forms):
                matrix[number, i, j] = first == second
    return matrix


class EqualJudge:
    """In the place of uqlm's NLI model: equal answers entail each other, others do not."""

    num_responses = 0

    def get_nli_results_batch(self, pairs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        rows = []
        for first, second in pairs:
            same = canonical_answer(first) == canonical_answer(second)
            rows.append(
                {"noncontradiction_score": same, "entailment": same, "entailment_score": same}
            )
        return rows


def uqlm(lm: HuggingFaceLM, n: int) -> list[tuple[str, str, Estimate]]:
    from uqlm.scorers.shortform.black_box import BlackBoxUQ
    from uqlm.scorers.shortform.entropy import SemanticEntropy
    from uqlm.scorers.shortform.white_box import WhiteBoxUQ

    def run(make: Callable[[Any], Any], column: str, **call: Any) -> Estimate:
        scorer = make(chat_model(lm))

        def estimate(prompts: Sequence[str]) -> list[float]:
            result = asyncio.run(
                scorer.generate_and_score(list(prompts), show_progress_bars=False, **call)
            )
            values = result.to_dict()["data"][column]
            return [0.0 if value is None or math.isnan(value) else float(value) for value in values]

        return estimate

    def white(scorer: str, *, by_length: bool) -> Callable[[Any], Any]:
        return lambda llm: WhiteBoxUQ(llm=llm, scorers=[scorer], length_normalize=by_length)

    def entropy(llm: Any) -> Any:
        return SemanticEntropy(llm=llm, use_best=False, prompts_in_nli=False, nli=EqualJudge())

    return [
        (
            "sequence_probability",
            "token_probability sequence",
            run(white("sequence_probability", by_length=False), "sequence_probability"),
        ),
        (
            "sequence_probability, normalised",
            "token_probability mean",
            run(white("sequence_probability", by_length=True), "sequence_probability"),
        ),
        (
            "min_probability",
            "token_probability minimum",
            run(white("min_probability", by_length=True), "min_probability"),
        ),
        (
            "exact_match",
            "sampled_consistency, all ten",
            run(
                lambda llm: BlackBoxUQ(llm=llm, scorers=["exact_match"], use_best=False),
                "exact_match",
                num_responses=n,
            ),
        ),
        (
            "semantic entropy, discrete",
            "semantic_entropy discrete",
            run(entropy, "discrete_confidence_scores", num_responses=n),
        ),
        (
            "semantic entropy, tokenprob",
            "semantic_entropy likelihood",
            run(entropy, "tokenprob_confidence_scores", num_responses=n),
        ),
    ]


def chat_model(lm: HuggingFaceLM) -> Any:
    """A chat model over `lm` with the attributes that uqlm sets.

    It is fed by knowgate's own decoder, one sample a call, which is faster than transformers'.
    """
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Chat(BaseChatModel):
        temperature: float = 0.0
        logprobs: bool = True

        @property
        def _llm_type(self) -> str:
            return "microworld"

        def _result(self, rows: Any) -> ChatResult:
            [[made]] = rows
            content = [{"token": "", "logprob": value} for value in made.token_logprobs]
            message = AIMessage(
                made.text.strip(), response_metadata={"logprobs": {"content": content}}
            )
            return ChatResult(generations=[ChatGeneration(message=message)])

        def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
            return self._result(
                lm.generate([str(messages[-1].content)], temperature=self.temperature)
            )

        async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
            return self._result(
                await lm.agenerate([str(messages[-1].content)], temperature=self.temperature)
            )

    return Chat()
