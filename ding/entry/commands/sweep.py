"""``ding sweep``."""

from pathlib import Path

import click


@click.command("sweep")
@click.argument("config")
@click.option("--param", "params", metavar="KEY=VALUES", multiple=True, required=True, help="A key that varies.")
@click.option("--trials", type=click.IntRange(1), default=20, show_default=True, help="Trials of the study, in all.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Trials at a time.")
@click.option("-o", "--override", "overrides", metavar="KEY=VALUE", multiple=True, help="Change a key of the config.")
@click.option("-s", "--seed", type=int, default=0, show_default=True, help="Of each run.")
@click.option("--env-step", type=click.IntRange(1), default=100_000, show_default=True, help="Env steps of a trial.")
@click.option("--out", metavar="DIR", help="The folder.  [default: <name of the file>_sweep]")
@click.option("--no-prune", is_flag=True, help="Let each trial run to its end.")
def sweep_command(
    config: str,
    params: tuple[str, ...],
    trials: int,
    jobs: int,
    overrides: tuple[str, ...],
    seed: int,
    env_step: int,
    out: str | None,
    no_prune: bool,
) -> None:
    """Try values for keys of the file CONFIG, and show which gave the best return.

    \b
    ding sweep CONFIG --param policy.learn.learning_rate=log:1e-4:1e-2 --trials 20 --jobs 2
    --param KEY=LOW:HIGH, KEY=log:LOW:HIGH (evenly in the logarithm), KEY=A,B,C

    A trial whose evaluations are below the median of earlier trials ends early. Repeat the command to resume a stopped
    study.
    """
    from ding.entry.sweep import Sweep, parse_parameter, plot_trials, table
    from ding.entry.view.views import console_lines
    from ding.utils import MissingExtraError

    folder = out or f"{Path(config).stem.removesuffix('_config')}_sweep"
    parameters = [parse_parameter(text) for text in params]
    sweep = Sweep(config, parameters, folder, seed, max_env_step=env_step, prune=not no_prune, overrides=overrides)
    with console_lines():
        results = sweep.run(trials, jobs)
    click.echo(table(results))
    try:
        click.echo(f"{plot_trials(results, Path(folder) / 'sweep.png')} shows them; the study is in {folder}")
    except MissingExtraError as error:
        click.echo(f"no picture: {error}")
