"""``python -m spe_unicorn``: the command line where no script is installed."""

from spe_unicorn.cli import program

if __name__ == "__main__":
    program()
