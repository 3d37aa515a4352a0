"""Trained models behind HTTP: LibreTranslate's contract, OpenAI's completions, else plain JSON."""
