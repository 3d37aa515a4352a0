"""What happens inside recurrent models: gradients through time, truncation, gates, attention, search."""
