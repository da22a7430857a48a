"""``ding new config``."""

import click


@click.group("new")
def new_command() -> None:
    """Write a file to begin with."""


@new_command.command("config")
@click.option("--policy", required=True, help="The type of the policy, such as ppo.")
@click.option("--env", "env_id", metavar="ID", required=True, help="The id of a gymnasium env, such as CartPole-v1.")
@click.option("--out", metavar="FILE", help="The file.  [default: <env>_<policy>_config.py]")
def config_command(policy: str, env_id: str, out: str | None) -> None:
    """Write a commented config that runs: ding new config --policy ppo --env CartPole-v1"""
    from ding.bonus.quick.new_config import write_new_config

    path, mode = write_new_config(policy, env_id, out)
    click.echo(f"{path}: run it with ding -m {mode} -c {path} -s 0")
