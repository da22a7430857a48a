"""The command `ding`.

Exit codes: 0 it worked; 1 an error in code that the library calls (an env, a policy), with its traceback; 2 a wrong
option or config, with what is wrong; 128 + n stopped by signal n.
"""

import json
import sys
from typing import IO, Any

import click

from ding import __DESCRIPTION__, __version__
from ding.config.errors import ConfigError


class _Mistake(click.ClickException):
    """What the user can put right; shown without a traceback."""

    exit_code = 2

    def show(self, file: IO[str] | None = None) -> None:
        click.echo(f"ding: {self.format_message()}", err=True)


def _whole(ctx: click.Context, param: click.Parameter, value: float) -> int:
    """A count; 1e3 and 1_000 are written for 1000, too."""
    if value < 0 or not value.is_integer():
        raise click.BadParameter(f"'{value:g}' is not a whole number of at least 0", ctx, param)
    return int(value)


def _print_registry(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value and not ctx.resilient_parsing:
        from ding.entry._cli_modes import registry_text

        try:
            click.echo(registry_text(value))
        except ConfigError as error:
            raise _Mistake(str(error)) from error
        ctx.exit()


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-v", "--version", message=f"ding %(version)s\n{__DESCRIPTION__}")
@click.option(
    "-q",
    "--query-registry",
    metavar="NAME",
    callback=_print_registry,
    expose_value=False,
    is_eager=True,
    help="List a registry: each name with the file and line that registers it.",
)
@click.option(
    "-m",
    "--mode",
    help="serial, serial_onpolicy or parallel (train), dist (a role of a run on several machines), eval, "
    "collect_demo_data and collect_episodic_demo_data (data sets of a trained policy).",
)
@click.option("-c", "--config", metavar="FILE", help="The config file.")
@click.option(
    "--expert-config",
    metavar="FILE",
    help="serial_bco, _dqfd, _r2d3, _sqil: the expert's config file; asked for without it.",
)
@click.option("-s", "--seed", type=int, multiple=True, help="Seed; several are run one after another. Default: 0.")
@click.option("-e", "--env", metavar="ENV", help="Without -c: the env of a config in configs/.")
@click.option("-p", "--policy", metavar="POLICY", help="Without -c: the policy of a config in configs/.")
@click.option("--exp-name", metavar="DIR", help="The experiment folder, instead of the config's exp_name.")
@click.option(
    "--train-iter", type=float, callback=_whole, default=1e8, metavar="N", help="Stop after this many train iterations."
)
@click.option(
    "--env-step", type=float, callback=_whole, default=1e8, metavar="N", help="Stop after this many env steps."
)
@click.option(
    "--load-path",
    metavar="PATH",
    help="Checkpoint to go on from (serial) or to evaluate (eval); serial also takes an experiment folder.",
)
@click.option("--state-freq", metavar="ITERS", default=0, help="Save the whole state every so many train iterations.")
@click.option("--replay-path", metavar="DIR", help="eval: write videos of the episodes into this folder.")
@click.option("--collect-count", type=float, callback=_whole, default=0, metavar="N", help="collect_...: how many.")
@click.option("--data-path", metavar="FILE", help="collect_..., serial_bc: the data set; else as the config says.")
@click.option("--quiet", is_flag=True, help="Plain lines instead of the live view.")
@click.option("--enable-total-log", is_flag=True, help="parallel: show all lines of all processes here.")
@click.option("--disable-flask-log/--enable-flask-log", default=True, help="Kept for scripts; there is no such log.")
@click.option("-P", "--platform", default="local", show_default=True, help="dist: local, slurm or k8s.")
@click.option(
    "-M",
    "--module",
    help="dist: config, coordinator, learner, collector; learner_aggregator and spawn_learner for a learner of several "
    "processes.",
)
@click.option("--module-name", help="dist: the name of a learner or collector, unique in the run.")
@click.option("-cdh", "--coordinator-host", metavar="HOST", help="dist: where the coordinator listens.")
@click.option("-cdp", "--coordinator-port", type=int, metavar="PORT", help="dist: and its port.")
@click.option("-lh", "--learner-host", metavar="HOST", help="dist: where the learner listens.")
@click.option(
    "-lp", "--learner-port", type=int, metavar="PORT", help="dist: and its port; any free one when not given."
)
@click.option("-clh", "--collector-host", metavar="HOST", help="dist: where the collector listens.")
@click.option("-clp", "--collector-port", type=int, metavar="PORT", help="dist: and its port; any free one.")
@click.option("-agh", "--aggregator-host", metavar="HOST", help="dist: where the aggregator of a learner listens.")
@click.option(
    "-agp", "--aggregator-port", type=int, metavar="PORT", help="dist: and its port; the learner uses the next one."
)
@click.option("--add", metavar="KIND", help="dist: ask the operator for more collectors or learners (Kubernetes).")
@click.option("--delete", metavar="KIND", help="dist: give collectors or learners back.")
@click.option("--restart", metavar="KIND", help="dist: have a collector or learner started anew.")
@click.option("-rs", "--replicas", type=int, default=1, show_default=True, help="--add, --delete: how many.")
@click.option("-rpn", "--restart-pod-name", metavar="POD", help="--restart: its pod.")
@click.option("--cpus", type=int, default=0, help="--add: of each; the operator decides when not given.")
@click.option("--gpus", type=int, default=0, help="--add: of each.")
@click.option("--memory", metavar="SIZE", help="--add: of each, e.g. 4Gi.")
@click.option("-cdn", "--coordinator-name", metavar="POD", help="--add, --delete, --restart: whose workers they are.")
@click.option("-ns", "--namespace", metavar="NAME", help="--add, --delete, --restart: the namespace of the run.")
@click.option("--operator-server", metavar="ADDRESS", help="--add, --delete, --restart: where the operator listens.")
@click.option("--kubeconfig", metavar="FILE", help="Kept for scripts; give --operator-server.")
@click.option("--token-file", metavar="FILE", help="dist: holds the run's token; only its owner may read it.")
@click.option("--strict", is_flag=True, help="A config key that is misspelt or that nobody reads is an error.")
@click.pass_context
def cli(ctx: click.Context, mode: str | None, seed: tuple[int, ...], **options: Any) -> None:
    """Train and evaluate reinforcement-learning agents.

    \b
    ding -m serial -c configs/cartpole/cartpole_dqn_config.py -s 0
    ding -m parallel -c configs/cartpole/parallel/cartpole_dqn_config.py -s 0
    ding -m eval -c FILE --load-path EXP/ckpt/ckpt_best.pth.tar
    ding plot EXP
    """
    if ctx.invoked_subcommand is not None:
        return
    if mode is None:
        raise _Mistake(
            "which mode? give -m serial, -m parallel or -m eval, or a command such as plot; -h shows all options"
        )
    from ding.entry._cli_modes import Options, run_mode

    try:
        run_mode(mode, Options(mode=mode, seeds=seed, echo=click.echo, ask=click.prompt, **options))
    except ConfigError as error:
        raise _Mistake(str(error)) from error
    except KeyboardInterrupt:
        # Before a run has its own handlers; click would make it exit code 1.
        ctx.exit(130)


@cli.command("plot")
@click.argument("exp_dir", nargs=-1, required=True)
@click.option("-o", "--out", metavar="PNG", default="learning_curve.png", show_default=True, help="The file.")
@click.option("--tag", default="evaluator_step/reward_mean", show_default=True, help="The scalar to draw.")
def plot_command(exp_dir: tuple[str, ...], out: str, tag: str) -> None:
    """Draw learning curves: mean and spread over the runs (seeds) of each experiment.

    EXP_DIR is an experiment folder, or a folder that holds several.
    """
    from ding.entry.view.plot import plot

    try:
        click.echo(str(plot(exp_dir, out, tag)))
    except (ConfigError, ImportError) as error:
        raise _Mistake(str(error)) from error


@cli.command("status")
@click.argument("exp_dir")
def status_command(exp_dir: str) -> None:
    """Show the status of the parallel run in EXP_DIR as JSON."""
    from ding.entry.view.access_file import read_status

    try:
        click.echo(json.dumps(read_status(exp_dir), indent=2))
    except ConfigError as error:
        raise _Mistake(str(error)) from error


def main() -> None:
    """Run the command line; the console script `ding`."""
    sys.exit(cli())
