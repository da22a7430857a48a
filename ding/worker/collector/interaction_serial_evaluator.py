"""Evaluator that plays episodes with one policy."""

import importlib.util
import time
from collections.abc import Mapping
from typing import Any

from ding.data.roles import EnvManager
from ding.rollout import WARN_STEPS, EvaluationRunner, VectorEvalMonitor, episode_return
from ding.torch_utils import to_item
from ding.utils import SERIAL_EVALUATOR_REGISTRY, one_time_warning
from ding.utils.render_helper import fps
from ding.worker.collector.base_serial_evaluator import Policies, SaveCheckpoint, SerialEvaluator


@SERIAL_EVALUATOR_REGISTRY.register("interaction")
class InteractionSerialEvaluator(SerialEvaluator):
    """Plays ``n_episode`` episodes with a policy, reports their returns and keeps the best checkpoint.

    Each env plays its share of the episodes and then stops. In a distributed run rank 0 plays and broadcasts the
    result.
    """

    config = {
        # Train iterations between two evaluations.
        "eval_freq": 1000,
        # Interval between two TensorBoard videos, in units of 'train_iter' or 'envstep'; -1: no videos.
        "render": {"render_freq": -1, "mode": "train_iter"},
        # Folder of the figure that envs save after each episode (`enable_save_figure`); None: no figures.
        "figure_path": None,
        # First train iteration at which reaching stop_value ends the training.
        "stop_from_iter": 1,
        # Steps of an episode after which a warning reports that it does not end; None: no warning.
        "warn_steps": WARN_STEPS,
    }

    _last_render_iter = -1

    def reset(self, _policy: Policies | None = None, _env: EnvManager | None = None) -> None:
        """Reset like :meth:`SerialEvaluator.reset`, and reset the video schedule."""
        super().reset(_policy, _env)
        self._last_render_iter = -1

    def eval(
        self,
        save_ckpt_fn: SaveCheckpoint | None = None,
        train_iter: int = -1,
        envstep: int = -1,
        n_episode: int | None = None,
        force_render: bool = False,
        policy_kwargs: dict[str, Any] | None = None,
    ) -> tuple[bool, dict[str, Any]]:
        """Play ``n_episode`` episodes.

        Args:
            save_ckpt_fn: Called with ``'ckpt_best.pth.tar'`` if the mean return is the best so far.
            train_iter: Train iterations of the policy so far.
            envstep: Env steps of the collector so far.
            n_episode: Number of episodes, at least the number of envs; ``None``: the value of the config.
            force_render: Record a video regardless of ``render_freq``.
            policy_kwargs: Keyword arguments of ``policy.forward``.

        Returns:
            ``(stop_flag, episode_info)``: whether the mean return reaches ``stop_value``, and a dict of lists with one
            entry per episode (``eval_episode_return`` and the other keys of the envs' ``episode_info``), plus
            ``<key>_mean`` for numeric keys.

        Raises:
            AssertionError: ``n_episode`` is unknown, or smaller than the number of envs.
            RuntimeError: there is no env manager or no policy.
            EvaluationError: an env reports only abnormal episodes.
            KeyError: an env ends an episode without ``info['eval_episode_return']``.
        """
        return self._on_first_rank(
            lambda: self._eval(save_ckpt_fn, train_iter, envstep, n_episode, force_render, policy_kwargs or {})
        )

    def _eval(
        self,
        save_ckpt_fn: SaveCheckpoint | None,
        train_iter: int,
        envstep: int,
        n_episode: int | None,
        force_render: bool,
        policy_kwargs: dict[str, Any],
    ) -> tuple[bool, dict[str, Any]]:
        render = force_render or self._should_render(train_iter, envstep)
        env, policies, monitor = self._started(n_episode)
        start = time.perf_counter()
        runner = EvaluationRunner(
            env, policies, monitor, policy_kwargs=policy_kwargs, warn_steps=self._cfg.get("warn_steps", WARN_STEPS)
        )
        while not monitor.is_finished():
            if render:
                monitor.update_video(env.ready_imgs)  # type: ignore[attr-defined]
            for env_id, (info,) in runner.step():
                self._note_episode(env_id, info, monitor, env)
                runner.finished(env_id)
        result = self._report(monitor, train_iter, envstep, runner.num_env_steps, time.perf_counter() - start)
        if render:
            self._write_video(monitor, train_iter, envstep)
        stop = self._judge(result, save_ckpt_fn, train_iter)
        return stop, to_item(monitor.get_episode_info() or {})

    def _note_episode(self, env_id: int, info: Mapping[str, Any], monitor: VectorEvalMonitor, env: EnvManager) -> None:
        value = episode_return(info, env_id)
        if self._cfg.get("figure_path") is not None:
            env.enable_save_figure(env_id, self._cfg.figure_path)  # type: ignore[attr-defined]
        monitor.update_info(env_id, {"eval_episode_return": value, **info.get("episode_info", {})})
        monitor.update_reward(env_id, value)
        self._log_episode(env_id, monitor)

    # ------------------------------------------------------------------ video

    def _should_render(self, train_iter: int, envstep: int) -> bool:
        render = self._cfg.get("render", {})
        freq = render.get("render_freq", -1)
        now = self._render_time(train_iter, envstep)
        if freq == -1 or now - self._last_render_iter < freq:
            return False
        self._last_render_iter = now
        return True

    def _render_time(self, train_iter: int, envstep: int) -> int:
        mode = self._cfg.get("render", {}).get("mode", "train_iter")
        if mode not in ("train_iter", "envstep"):
            raise ValueError(f"evaluator.render.mode must be 'train_iter' or 'envstep', got {mode!r}")
        return train_iter if mode == "train_iter" else envstep

    def _write_video(self, monitor: VectorEvalMonitor, train_iter: int, envstep: int) -> None:
        if importlib.util.find_spec("moviepy") is None:
            one_time_warning("no video is written to tensorboard: it needs the package moviepy")
            return
        mode = self._cfg.get("render", {}).get("mode", "train_iter")
        assert self._log is not None
        assert self._log.writer is not None
        self._log.writer.add_video(  # type: ignore[attr-defined]
            f"{self._instance_name}_{mode}/",
            monitor.get_video(),
            self._render_time(train_iter, envstep),
            fps(self._env),
        )
