"""Names and hashes of the files of models."""

from __future__ import annotations

from types import MappingProxyType

WEIGHTS = "model.safetensors"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
ADAPTER_CONFIG = "adapter_config.json"
HEAD_WEIGHTS = "head.safetensors"
BUNDLED_SHA256 = MappingProxyType(
    {
        "adapter_config.json": ("9cdd9d2b17c1cae982070d1fa5d77d8e99a97d9eaa5f7d928059fe5328f83064"),
        "adapter_model.safetensors": (
            "e04832e0c7071e6eaa024a0a6d02951c264e42d94a13c46802e752b59d2938d0"
        ),
        "sufficiency.json": ("d3f2a989eeb019fbbaf2aacf9d7165d8c4df7d2babe97060d8894082e7277171"),
    }
)
CROSS_ENCODER_SHA256 = MappingProxyType(
    {
        "adapter_config.json": "ace7ae70b27c54c6fe316569e6fa07d40d2ac13ac6f012ba68fa482079a92486",
        "adapter_model.safetensors": (
            "b3c5a1166043783a28c816c5d17cc931ec8ab3243ff95eac4d5a8c515aab7e7a"
        ),
        "head.safetensors": "744f36740915edef947514841cc8e4c6b7e37f8a529d27f34b2d5fc0da3f777b",
        "mix.json": "4a6da91b6ea623f33d936d1f192bb60c7e8c216801c19589c5230b5de172f231",
    }
)
# Of the embedded all-MiniLM-L6-v2: its weights, and whatever else decides its vectors.
EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
EMBEDDED_FILES = MappingProxyType(
    {
        "model.safetensors": EMBEDDED_SHA256,
        "config.json": ("953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
        "sentence_bert_config.json": (
            "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"
        ),
        "tokenizer.json": ("be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
    }
)
