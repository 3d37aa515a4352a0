"""Raw text to tokens to ids and back, and what can be counted there. No torch here."""
