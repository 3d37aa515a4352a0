"""Run what README.md and docs/*.md show: `python -m tools.docs`."""
