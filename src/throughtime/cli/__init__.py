"""The command `throughtime`. Modules here import typer and nothing heavy until a command runs."""
