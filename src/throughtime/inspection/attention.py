"""What a translation looked at, word by word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from throughtime.errors import InputError

if TYPE_CHECKING:
    from throughtime.tasks.translate.translation import Search, SentenceTranslator, Translation


def attended(translator: SentenceTranslator, text: str, search: Search | None = None) -> list[Translation]:
    """The translations of a text, best first, with their alignments; refused where the model has none."""
    require_translator(translator)
    if not text.strip():
        raise InputError("sentence", "is empty; give some words to translate")
    [found] = translator.translate([text], search=search, align=True)
    if any(one.alignment is None for one in found):
        raise InputError(
            "attention",
            "this translator has none: it reads the source into one vector",
        )
    return found


def require_translator(model: Any) -> None:
    """Refuse a model of another kind."""
    if not hasattr(model, "searched"):
        raise InputError("model", "is no translator, and only those attend and search with a beam")
