"""``ding.train``: a policy on an env, without a config."""

from collections.abc import Sequence
from typing import Any

from easydict import EasyDict

from ding.bonus.core.agent import Agent
from ding.bonus.core.fit import model_section
from ding.bonus.experiment import load
from ding.bonus.quick.generated import apply_short_overrides, compiled, generated_config
from ding.entry import serial_pipeline, serial_pipeline_onpolicy
from ding.entry.view.callbacks import RunCallback
from ding.entry.view.status import RunStatus
from ding.entry.view.views import RunView

MAX_ENV_STEP = 100_000


def train(
    policy: str,
    env_id: str,
    seed: int = 0,
    *,
    exp_name: str | None = None,
    max_env_step: int = MAX_ENV_STEP,
    max_train_iter: int = int(1e10),
    view: RunView | None = None,
    strict: bool = False,
    callbacks: Sequence[RunCallback] = (),
    **overrides: Any,
) -> Agent:
    """Train with a serial pipeline on the config of :func:`generated_config`, and return the agent at its best.

    ``ding.train("dqn", "CartPole-v1", seed=0, batch_size=128, **{"policy.other.eps.decay": 2000})``

    Args:
        policy: registered type of the policy.
        env_id: id of a registered gymnasium env.
        seed: of everything.
        exp_name: experiment folder; by default ``<env>-<policy>``.
        max_env_step, max_train_iter: limits; the run ends at the stop value, too.
        view, strict, callbacks: as of :func:`ding.entry.serial_pipeline`.
        overrides: keys of the main config, by their path or by a name that one key has.

    Raises:
        AgentConfigError: there is no such policy or env, or they do not fit.
        ConfigError: an override is wrong.
        RunInterrupted: a signal stopped the run (a ``SystemExit``).
    """
    main, create = generated_config(policy, env_id, exp_name)
    apply_short_overrides(overrides, main, create)
    written = {key.rpartition(".")[2] for key in overrides}
    main.policy.model = EasyDict(model_section(create.policy.type, main.policy.model, written))
    pipeline = serial_pipeline_onpolicy if compiled(main, create, strict).policy.on_policy else serial_pipeline
    end = _End()
    pipeline(
        (main, create),
        seed=seed,
        max_env_step=max_env_step,
        max_train_iter=max_train_iter,
        view=view,
        strict=strict,
        callbacks=[*callbacks, end],
    )
    return load(end.exp_name, seed=seed)


class _End(RunCallback):
    """Notes where the run was: a folder that exists gets another name."""

    exp_name = ""

    def on_end(self, status: RunStatus) -> None:
        self.exp_name = status.exp_name
