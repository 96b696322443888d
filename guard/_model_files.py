"""Names and hashes of the files of models."""

from __future__ import annotations

from types import MappingProxyType

WEIGHTS = "model.safetensors"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
ADAPTER_CONFIG = "adapter_config.json"
BUNDLED_SHA256 = MappingProxyType(
    {
        "adapter_config.json": ("9cdd9d2b17c1cae982070d1fa5d77d8e99a97d9eaa5f7d928059fe5328f83064"),
        "adapter_model.safetensors": (
            "e04832e0c7071e6eaa024a0a6d02951c264e42d94a13c46802e752b59d2938d0"
        ),
        "sufficiency.json": ("e31a366e095c2e162c90b386358218adfe40842621560a34e0ba5d327d28230f"),
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
