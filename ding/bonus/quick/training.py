"""``ding.train``: trains a policy on an env without a config."""

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
    """Train with a serial pipeline on the config of :func:`generated_config`, and return the agent with its best
    weights.

    ``ding.train("dqn", "CartPole-v1", seed=0, batch_size=128, **{"policy.other.eps.decay": 2000})``

    Args:
        policy: Registered type of the policy.
        env_id: Id of a registered Gymnasium env.
        seed: Seed of all random generators.
        exp_name: Experiment folder; by default ``<env>-<policy>``.
        max_env_step, max_train_iter: Limits; the run also ends at the stop value.
        view, strict, callbacks: See :func:`ding.entry.serial_pipeline`.
        overrides: Keys of the main config, by path or by a unique name.

    Raises:
        AgentConfigError: The policy or env does not exist, or they do not fit.
        ConfigError: An override is invalid.
        RunInterrupted: A signal stopped the run (a ``SystemExit``).
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
    """Records the folder of the run: an existing folder leads to another name."""

    exp_name = ""

    def on_end(self, status: RunStatus) -> None:
        self.exp_name = status.exp_name
