"""Numbers that compare predictions with what is right; no model is needed here, and no torch."""
