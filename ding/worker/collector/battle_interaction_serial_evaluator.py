"""The evaluator that plays episodes of a game between several policies."""

import time
from collections.abc import Callable
from typing import Any

from ding.utils import SERIAL_EVALUATOR_REGISTRY
from ding.worker.collector._eval_monitor import VectorEvalMonitor, plain_values
from ding.worker.collector._eval_runner import BattleRunner, episode_return_of
from ding.worker.collector._evaluator_base import SerialEvaluatorBase


@SERIAL_EVALUATOR_REGISTRY.register("battle_interaction")
class BattleInteractionSerialEvaluator(SerialEvaluatorBase):
    """Plays ``n_episode`` episodes between several policies; the return of player 0 is what counts.

    Env contract: ``obs[i]`` is what player ``i`` sees, an action is a list with one entry per player, ``info`` a list
    with one dict per player. ``policy`` is a list of eval modes, of which only ``forward`` and ``reset`` are used.
    """

    config = {
        # Train iterations between two evaluations.
        "eval_freq": 50,
        # First train iteration at which reaching stop_value ends the training.
        "stop_from_iter": 1,
    }

    def _set_policy(self, policy: Any) -> None:
        if policy is not None and not (isinstance(policy, (list, tuple)) and len(policy) > 1):
            raise AssertionError(f"{self._instance_name}: a battle needs a list of more than one policy")
        super()._set_policy(None if policy is None else list(policy))

    def eval(
        self,
        save_ckpt_fn: Callable[[str], Any] | None = None,
        train_iter: int = -1,
        envstep: int = -1,
        n_episode: int | None = None,
    ) -> tuple[bool, list[list[dict[str, Any]]]]:
        """Play ``n_episode`` episodes.

        Args:
            save_ckpt_fn: called with ``'ckpt_best.pth.tar'`` when the mean return of player 0 is the best so far.
            train_iter: train iterations so far.
            envstep: env steps of the collector so far.
            n_episode: number of episodes, at least the number of envs; ``None``: the one of the config.

        Returns:
            ``(stop_flag, return_info)``: whether the mean return of player 0 reaches ``stop_value``, and for each
            player the list of the infos of the episodes, in the order in which they ended.

        Raises:
            AssertionError: ``n_episode`` is unknown, or smaller than the number of envs.
            RuntimeError: there is no env manager or no policy.
        """
        stop: bool = False
        infos: list[list[dict[str, Any]]] = []
        if self._rank == 0:
            monitor = self._new_monitor(n_episode)
            start = time.perf_counter()
            num_env_steps, infos = self._play(monitor)
            duration_s = time.perf_counter() - start
            result = self._report(monitor, train_iter, envstep, num_env_steps, duration_s)
            stop = self._judge(result["reward_mean"], save_ckpt_fn, train_iter)
        return self._share(stop, infos)

    def _play(self, monitor: VectorEvalMonitor) -> tuple[int, list[list[dict[str, Any]]]]:
        self._env.reset()
        policies = self._policies()
        for policy in policies:
            policy.reset()
        runner = BattleRunner(self._env, policies, monitor)
        infos: list[list[dict[str, Any]]] = [[] for _ in policies]
        while not monitor.is_finished():
            for env_id, info in runner.step():
                first_return = episode_return_of(info[0], env_id)
                if "episode_info" in info[0]:
                    monitor.update_info(env_id, info[0]["episode_info"])
                monitor.update_reward(env_id, first_return)
                for player, seen in enumerate(infos):
                    seen.append(plain_values(info[player]))
                self._log_episode(env_id, monitor)
                runner.finished(env_id)
        return runner.num_env_steps, infos
