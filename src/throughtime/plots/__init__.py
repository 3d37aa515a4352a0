"""Pictures; they know no model."""
