"""Raw text to tokens to ids and back, and statistics of text. Nothing here needs torch."""
