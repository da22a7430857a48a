"""``ding inspect``."""

import os

import click


@click.command("inspect")
@click.argument("checkpoint", type=click.Path(exists=True))
@click.option("-c", "--config", metavar="FILE", help="Also report whether the policy of this config loads it.")
@click.pass_context
def inspect_command(ctx: click.Context, checkpoint: str, config: str | None) -> None:
    """Show the contents of a checkpoint of this package or of DI-engine: tensors, optimizers, counters.

    CHECKPOINT is a file or a folder; an experiment folder selects its best checkpoint. Only tensors, numbers, strings
    and containers are unpickled. With -c the exit code is 1 if the checkpoint does not fit.
    """
    from ding.config import ConfigValueError
    from ding.entry.view.contents import contents, fit
    from ding.entry.view.experiment import best_checkpoint
    from ding.utils.checkpoint import is_checkpoint_folder

    path = checkpoint
    if os.path.isdir(path) and not is_checkpoint_folder(path):
        best = best_checkpoint(path)
        if best is None:
            raise ConfigValueError(f"{path} is no checkpoint, and no experiment folder with one")
        path = str(best)
    for line in contents(path):
        click.echo(line)
    if config is not None:
        fits, text = fit(path, config)
        click.echo(text)
        ctx.exit(0 if fits else 1)
