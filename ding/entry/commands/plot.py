"""``ding plot``."""

import click


@click.command("plot")
@click.argument("exp_dir", nargs=-1, required=True)
@click.option("-o", "--out", metavar="PNG", default="learning_curve.png", show_default=True, help="The file.")
@click.option("--tag", default="evaluator_step/reward_mean", show_default=True, help="The scalar to draw.")
def plot_command(exp_dir: tuple[str, ...], out: str, tag: str) -> None:
    """Plot learning curves: interquartile mean and 95 % interval over the runs (seeds) of each experiment.

    EXP_DIR is an experiment folder, or a folder that contains several.
    """
    from ding.entry.view.plot import plot

    click.echo(str(plot(exp_dir, out, tag)))
