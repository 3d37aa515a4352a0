"""Language models that count, behind the same interface as neural ones."""
