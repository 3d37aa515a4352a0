"""Numbers that judge a model; they know no model."""
