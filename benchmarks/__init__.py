"""Speed and memory beside peers: ratios, taken in one run on one machine."""
