"""Looking into recurrences: how gradients travel through time, what a truncation costs, what gates do."""
