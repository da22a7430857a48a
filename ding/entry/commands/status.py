"""``ding status``."""

import json

import click


@click.command("status")
@click.argument("exp_dir")
def status_command(exp_dir: str) -> None:
    """Show the status of the parallel run in EXP_DIR as JSON."""
    from ding.entry.view.access_file import read_status

    click.echo(json.dumps(read_status(exp_dir), indent=2))
