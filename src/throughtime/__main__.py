"""`python -m throughtime` is the command `throughtime`."""

from throughtime.cli.main import run

if __name__ == "__main__":
    run()
