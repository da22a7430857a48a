"""``ding migrate``."""

import click


@click.command("migrate")
@click.argument("path", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--write", is_flag=True, help="Write the replacements into the files.")
@click.pass_context
def migrate_command(ctx: click.Context, path: tuple[str, ...], write: bool) -> None:
    """Adapt scripts and configs of DI-engine 0.5 to this package, without running them.

    PATH is a Python file, or a folder of them. Shows the replacements as a diff, the remaining work, and notes on
    numbers that change.

    Exit code 0: no work remains, whether the replacements are written or not; 1: some does.
    """
    from ding.entry.migrate.run import migrate

    ctx.exit(0 if migrate(path, write, click.echo) else 1)
