"""Files to records, records to batches."""
