"""``ding migrate``."""

import click


@click.command("migrate")
@click.argument("path", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--write", is_flag=True, help="Write the replacements into the files.")
@click.pass_context
def migrate_command(ctx: click.Context, path: tuple[str, ...], write: bool) -> None:
    """Make scripts and configs of DI-engine 0.5 ready for this package, without running them.

    PATH is a Python file, or a folder of them. Shows the replacements as a diff, what is left to do, and notes on
    numbers that change.

    Exit code 0: nothing is left to do, whether the replacements are written or not; 1: something is.
    """
    from ding.entry.migrate.run import migrate

    ctx.exit(0 if migrate(path, write, click.echo) else 1)
