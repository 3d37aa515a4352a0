"""Settings of tests that compare one training with another: nothing dropped, one learning rate."""

PLAIN = {
    "input_dropout": 0.0,
    "hidden_dropout": 0.0,
    "output_dropout": 0.0,
    "weight_drop": 0.0,
    "schedule": "constant",
    "lr": 2e-3,
}

SMALL = {
    "embedding_size": 12,
    "hidden_size": 12,
    "batch_size": 4,
    "num_steps": 10,
    "tokens": "word",
    "device": "cpu",
    **PLAIN,
}
"""A small language model of that kind."""
