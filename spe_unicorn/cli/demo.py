"""Demo."""

import click


@click.command()
def demo() -> None:
    """Demo."""
