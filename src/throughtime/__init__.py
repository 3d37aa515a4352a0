"""throughtime: recurrent sequence models, from raw sequences to a served model."""

__version__ = "0.1.0"
