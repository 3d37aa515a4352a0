"""A package that is not part of throughtime and extends it."""
