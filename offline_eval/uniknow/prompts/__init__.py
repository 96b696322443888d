"""Prompts of the UniKnow suite, one file each, with `{context}` and `{question}` to fill."""
