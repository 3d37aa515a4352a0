"""The parts that models are built of: stacks of cells, attention, CRF, dropout, embeddings, pooling."""
