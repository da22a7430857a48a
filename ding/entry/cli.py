"""The command ``ding``.

Exit codes: 0 success; 1 an error in code that the library calls (an env, a policy), shown with the lines of that code;
2 an invalid option or config, with the reason; 128 + n stopped by signal n. Heavy modules are imported on demand.
"""

import importlib
import os
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import IO, Any

import click
from click.core import ParameterSource

from ding import __DESCRIPTION__, __version__

# Command -> ``module:attribute``. A command belongs to the floor of the code that it calls.
_COMMANDS = {
    "inspect": "ding.entry.commands.inspect:inspect_command",
    "board": "ding.entry.commands.board:board_command",
    "compare": "ding.entry.commands.compare:compare_command",
    "migrate": "ding.entry.commands.migrate:migrate_command",
    "export": "ding.bonus.commands.export:export_command",
    "new": "ding.bonus.commands.new:new_command",
    "plot": "ding.entry.commands.plot:plot_command",
    "scale": "ding.entry.commands.scale:scale_command",
    "status": "ding.entry.commands.status:status_command",
    "sweep": "ding.entry.commands.sweep:sweep_command",
    "train": "ding.bonus.commands.train:train_command",
}


class _Mistake(click.ClickException):
    """Error that the user can correct; shown without a traceback."""

    exit_code = 2

    def show(self, file: IO[str] | None = None) -> None:
        click.echo(f"ding: {self.format_message()}", err=True)


class _Failure(click.ClickException):
    """Error in other code: a message, the lines of the user's code, and the location of the whole traceback."""

    def __init__(self, sentence: str, frames: Sequence[str], log: object) -> None:
        super().__init__(sentence)
        self._more = [f"  {frame}" for frame in frames]
        if log is not None:
            self._more.append(f"the whole traceback is in {log}")

    def show(self, file: IO[str] | None = None) -> None:
        click.echo("\n".join([f"ding: {self.format_message()}", *self._more]), err=True)


class _Commands(click.Group):
    """Imports the module of a command on demand, and shows errors instead of tracebacks."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _COMMANDS:
            module, _, attribute = _COMMANDS[cmd_name].partition(":")
            command: click.Command = getattr(importlib.import_module(module), attribute)
            return command
        return None if ctx.params.get("mode") is None else self._mode_on(cmd_name)

    def _mode_on(self, exp_dir: str) -> click.Command:
        """Interpret ``ding -m MODE [OPTION]... EXP_DIR [OPTION]...`` as the mode with ``--load-path EXP_DIR``."""

        @click.pass_context
        def run(ctx: click.Context, /, **behind: Any) -> None:
            before = {} if ctx.parent is None else ctx.parent.params
            given = {name for name in behind if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT}
            _run(**{**before, "load_path": exp_dir, **{name: behind[name] for name in given}})

        return click.Command(exp_dir, params=list(self.params), callback=run)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            # Before a run installs its handlers; click would exit with code 1.
            ctx.exit(130)
        except Exception as error:
            from ding.entry.view import failure

            sentence = failure.sentence_of(error)
            if failure.is_mistake(error):
                raise _Mistake(sentence) from error
            log = failure.log_path(error) or failure.write_traceback(error)
            raise _Failure(sentence, failure.own_frames(error), log) from error


def _whole(ctx: click.Context, param: click.Parameter, value: float) -> int:
    """Parse a count; accepts 1e3 and 1_000 for 1000, too."""
    if value < 0 or not value.is_integer():
        raise click.BadParameter(f"'{value:g}' is not a whole number of at least 0", ctx, param)
    return int(value)


def _print_registry(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value and not ctx.resilient_parsing:
        from ding.config.errors import ConfigError
        from ding.entry.commands.modes import registry_text

        try:
            click.echo(registry_text(value))
        except ConfigError as error:
            raise _Mistake(str(error)) from error
        ctx.exit()


@click.group(cls=_Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
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
@click.option(
    "-o",
    "--override",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="Change a key of the config, such as policy.learn.batch_size=128; may be given several times.",
)
@click.option(
    "--compile",
    "compiles",
    is_flag=False,
    flag_value="True",
    type=click.Choice(["True", "auto"], case_sensitive=False),
    help="Compile updates and acting of the policy, at once or (auto) in the background: policy.learn.compile.",
)
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
@click.option(
    "--resume",
    metavar="EXP_DIR",
    help="Experiment folder of a run that was stopped or killed: go on in it from its newest good snapshot.",
)
@click.option("--state-freq", metavar="ITERS", default=0, help="Save the whole state every so many train iterations.")
@click.option(
    "--trust",
    is_flag=True,
    help="Import the code that an experiment folder needs, also where the run is not your own.",
)
@click.option(
    "--episodes", type=click.IntRange(1), metavar="N", help="eval: number of episodes; else as the config says."
)
@click.option("--replay-path", metavar="DIR", help="eval: write videos of the episodes into this folder.")
@click.option("--collect-count", type=float, callback=_whole, default=0, metavar="N", help="collect_...: how many.")
@click.option("--data-path", metavar="FILE", help="collect_..., serial_bc: the data set; else as the config says.")
@click.option("--quiet", is_flag=True, help="Plain lines instead of the live view.")
@click.option("--enable-total-log", is_flag=True, help="parallel: show all lines of all processes here.")
@click.option("--backend", metavar="NAME", help="parallel: flask_fs (processes), inproc (threads) or ray (actors).")
@click.option("--address", metavar="ADDRESS", help="--backend ray: of a running cluster; auto: that of this machine.")
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
def cli(ctx: click.Context, /, **options: Any) -> None:
    """Train and evaluate reinforcement-learning agents.

    \b
    ding -m serial -c configs/cartpole/cartpole_dqn_config.py -s 0
    ding -m parallel -c configs/cartpole/parallel/cartpole_dqn_config.py -s 0
    ding -m eval EXP_DIR
    ding plot EXP_DIR
    ding compare EXP_DIR EXP_DIR
    """
    if ctx.invoked_subcommand is None:
        _run(**options)


def _run(
    mode: str | None, seed: tuple[int, ...], overrides: tuple[str, ...], compiles: str | None, **options: Any
) -> None:
    if mode is None:
        raise _Mistake(
            "which mode? give -m serial, -m parallel or -m eval, or a command such as plot; -h shows all options"
        )
    if sys.stderr.isatty():
        click.echo(f"ding: starting -m {mode} ...", err=True)
    from ding.entry.commands.modes import run_mode

    if compiles is not None:
        overrides = (*overrides, f"policy.learn.compile={compiles}")
    run_mode(
        mode, SimpleNamespace(mode=mode, seeds=seed, overrides=overrides, echo=click.echo, ask=click.prompt, **options)
    )


def main() -> None:
    """Run the command line; the console script ``ding``.

    Modules in the current folder can be imported, as with ``python -m ding``, but after installed ones of the same
    name.
    """
    if not sys.flags.safe_path and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    sys.exit(cli())
