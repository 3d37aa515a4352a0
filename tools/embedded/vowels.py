"""The letters before which French words change; every h of our lexicon is silent."""

VOWELS = "aeiouéèêàâîôùûœh"
