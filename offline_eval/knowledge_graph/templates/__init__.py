"""Question templates: by language, and better ones for some properties."""
