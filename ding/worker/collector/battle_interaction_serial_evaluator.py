"""Evaluator that plays episodes of a game between several policies."""

import time
from typing import Any

from ding.rollout import WARN_STEPS, EvaluationRunner, Game, episode_return
from ding.rollout.evaluation import plain_values
from ding.utils import SERIAL_EVALUATOR_REGISTRY
from ding.worker.collector.base_serial_evaluator import Policies, SaveCheckpoint, SerialEvaluator


@SERIAL_EVALUATOR_REGISTRY.register("battle_interaction")
class BattleInteractionSerialEvaluator(SerialEvaluator):
    """Plays ``n_episode`` episodes between several policies; the return of player 0 is the result.

    Env contract: ``obs[i]`` is the observation of player ``i``, an action is a list with one entry per player, and
        ``info``
    is a list with one dict per player. ``policy`` is a list of eval modes; only ``forward`` and ``reset`` are used.
    """

    config = {
        # Train iterations between two evaluations.
        "eval_freq": 50,
        # First train iteration at which reaching stop_value ends the training.
        "stop_from_iter": 1,
        # Steps of an episode after which a warning reports that it does not end; None: no warning.
        "warn_steps": WARN_STEPS,
    }

    def _set_policy(self, policy: Policies | None) -> None:
        if policy is not None and not (isinstance(policy, (list, tuple)) and len(policy) > 1):
            raise AssertionError(f"{self._instance_name}: a battle needs a list of more than one policy")
        super()._set_policy(None if policy is None else list(policy))

    def eval(
        self,
        save_ckpt_fn: SaveCheckpoint | None = None,
        train_iter: int = -1,
        envstep: int = -1,
        n_episode: int | None = None,
    ) -> tuple[bool, list[list[dict[str, Any]]]]:
        """Play ``n_episode`` episodes.

        Args:
            save_ckpt_fn: Called with ``'ckpt_best.pth.tar'`` if the mean return of player 0 is the best so far.
            train_iter: Train iterations so far.
            envstep: Env steps of the collector so far.
            n_episode: Number of episodes, at least the number of envs; ``None``: the value of the config.

        Returns:
            ``(stop_flag, return_info)``: whether the mean return of player 0 reaches ``stop_value``, and for each
            player the list of episode infos, in the order in which the episodes ended.

        Raises:
            AssertionError: ``n_episode`` is unknown, or smaller than the number of envs.
            RuntimeError: there is no env manager or no policy.
        """
        return self._on_first_rank(lambda: self._eval(save_ckpt_fn, train_iter, envstep, n_episode))

    def _eval(
        self, save_ckpt_fn: SaveCheckpoint | None, train_iter: int, envstep: int, n_episode: int | None
    ) -> tuple[bool, list[list[dict[str, Any]]]]:
        env, policies, monitor = self._started(n_episode)
        start = time.perf_counter()
        runner = EvaluationRunner(
            env, policies, monitor, Game(len(policies)), warn_steps=self._cfg.get("warn_steps", WARN_STEPS)
        )
        infos: list[list[dict[str, Any]]] = [[] for _ in policies]
        while not monitor.is_finished():
            for env_id, of_players in runner.step():
                if "episode_info" in of_players[0]:
                    monitor.update_info(env_id, of_players[0]["episode_info"])
                monitor.update_reward(env_id, episode_return(of_players[0], env_id))
                for seen, info in zip(infos, of_players):
                    seen.append(plain_values(info))
                self._log_episode(env_id, monitor)
                runner.finished(env_id)
        result = self._report(monitor, train_iter, envstep, runner.num_env_steps, time.perf_counter() - start)
        return self._judge(result, save_ckpt_fn, train_iter), infos
