"""Language models from counts of n-grams, and what can be built on them."""
