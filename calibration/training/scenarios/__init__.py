"""Train a language model on what to do in each knowledge scenario.

LoRA adapters by supervised examples (`train_scenarios`) or by preferences
(`PreferenceExample`), in peft's file format, with safetensors weights and a
`training.json` that says what they were made of. Its errors are knowgate's own, and

    KnowgateError
    └── TrainingDivergedError    the loss is no number any more; nothing was written
"""

from __future__ import annotations
