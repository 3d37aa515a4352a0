"""What models are built of, between cells and heads."""

from throughtime.layers.embedding import embedding_from_vectors, one_hot
from throughtime.layers.stack import Stack

__all__ = ["Stack", "embedding_from_vectors", "one_hot"]
