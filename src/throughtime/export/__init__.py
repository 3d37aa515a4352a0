"""Models taken elsewhere: graphs that run without torch."""
