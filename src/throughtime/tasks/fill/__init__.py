"""Words for the blanks of a text."""
