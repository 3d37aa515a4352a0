"""What models are built of, between cells and heads."""
