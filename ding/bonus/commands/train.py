"""``ding train``."""

import click


@click.command("train")
@click.argument("policy")
@click.argument("env_id", metavar="ENV")
@click.option("-s", "--seed", "seeds", type=int, multiple=True, help="Seed; several are run one after another.")
@click.option("-o", "--override", "overrides", metavar="KEY=VALUE", multiple=True, help="Change a key of the config.")
@click.option("--exp-name", metavar="DIR", help="The experiment folder.  [default: ENV-POLICY]")
@click.option(
    "--env-step", type=click.IntRange(1), metavar="N", help="Stop after so many env steps.  [default: 100000]"
)
@click.option("--quiet", is_flag=True, help="Plain lines instead of the live view.")
@click.option("--strict", is_flag=True, help="A config key that is misspelt or that nobody reads is an error.")
def train_command(
    policy: str,
    env_id: str,
    seeds: tuple[int, ...],
    overrides: tuple[str, ...],
    exp_name: str | None,
    env_step: int | None,
    quiet: bool,
    strict: bool,
) -> None:
    """Train POLICY on ENV, without a config: ding train dqn CartPole-v1 -o batch_size=128

    A key is written as its path, such as policy.learn.batch_size, or as a name that one key of the config has.
    """
    from ding.bonus.quick.training import MAX_ENV_STEP, train
    from ding.config.overrides import parsed
    from ding.entry.view.experiment import seed_folder
    from ding.entry.view.views import make_view

    values = dict(parsed(text) for text in overrides)
    for seed in seeds or (0,):
        name = exp_name or f"{env_id.replace('/', '-')}-{policy.lower()}"
        train(
            policy,
            env_id,
            seed,
            exp_name=seed_folder(name, seed) if len(seeds) > 1 else name,
            max_env_step=env_step or MAX_ENV_STEP,
            view=make_view(quiet),
            strict=strict,
            **values,
        )
