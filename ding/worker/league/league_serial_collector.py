"""Collector of whole games between a learning policy and the opponents that a league selects."""

import copy
import os
from collections.abc import Sequence
from typing import Any

from easydict import EasyDict

from ding.data.roles import CollectMode, EnvManager, EvalMode, Samples, StateDict, Writer
from ding.data.transition_batch import joined_samples
from ding.league import BaseLeague, OneVsOneLeague, create_league
from ding.league.shared_payoff import game_result
from ding.policy import create_policy
from ding.rollout import INF, as_policies
from ding.rollout.players import own_return, scalar
from ding.utils import SERIAL_COLLECTOR_REGISTRY, deep_merge_dicts, get_world_size
from ding.utils.file_helper import read_file, save_file
from ding.utils.names import check_choice
from ding.worker.collector.base_serial_collector import (
    SERIAL_CONFIG,
    Policies,
    SerialCollector,
    episodes_target,
)


@SERIAL_COLLECTOR_REGISTRY.register("league")
class LeagueSerialCollector(SerialCollector):
    """Collects ``n_episode`` whole games per call against one opponent: the learning policy itself, or a snapshot.

    The learning policy is player 0; the environments are those of :class:`~ding.worker.BattleSampleSerialCollector`.
    The steps of a snapshot are not recorded; if the policy plays itself, the steps of both players are. The results
    update the league, which takes a snapshot when one is due, as a file in ``<exp_name>/league`` or in
    ``league.path_policy``. The snapshots' number and the results are part of the collector's state.

    Args:
        league: League that several collectors share, each for one of its players. The trainer of a player must then
            write its weights to the player's ``checkpoint_path`` before others play against it, and before its next
            collection, which may take a snapshot of that file (see ``examples/league.py``).
        player_id: Id of the learning player; by default the first active one.

    Raises:
        RuntimeError: The run has several processes, each of which would have its own league.
        ValueError: ``frozen_players`` is unknown, or the league is configured to start from pretrained weights.
    """

    config = {
        **SERIAL_CONFIG,
        # Behaviour of snapshots: 'eval' (greedy), or 'collect' (explore like the learning policy).
        "frozen_players": "eval",
        # See the league of its `league_type`; only its first active player learns, unless a script shares the league.
        "league": OneVsOneLeague.config,
    }

    def __init__(
        self,
        cfg: EasyDict,
        env: EnvManager | None = None,
        policy: Policies | None = None,
        tb_logger: Writer | None = None,
        exp_name: str = "default_experiment",
        instance_name: str = "collector",
        *,
        league: BaseLeague | None = None,
        player_id: str | None = None,
    ) -> None:
        if get_world_size() > 1:
            raise RuntimeError("the collector 'league' works in runs of one process only")
        self._explores = cfg.get("frozen_players", "eval")
        check_choice("collector.frozen_players", self._explores, ("eval", "collect"))
        self._folder = os.path.join(exp_name, "league")
        self._snapshot: CollectMode | EvalMode | None = None
        self._league = self._own_league(cfg) if league is None else league
        self._player = self._league.only_learning_player().player_id if player_id is None else player_id
        super().__init__(cfg, env, policy, tb_logger, exp_name, instance_name)

    def _own_league(self, cfg: EasyDict) -> BaseLeague:
        # Snapshots belong to the run: in a shared folder, runs would play against each other's snapshots.
        default = {**OneVsOneLeague.default_config(), "path_policy": self._folder}
        league = deep_merge_dicts(default, cfg.get("league", {}))
        if league["use_pretrain"]:
            raise ValueError("collector.league.use_pretrain: let the learner load the weights (load_ckpt_before_run)")
        return create_league(league, self._save_weights)

    @property
    def league(self) -> BaseLeague:
        """League with the players and their results."""
        return self._league

    def reset_policy(self, _policy: Policies | None = None) -> None:
        """Reset the policy, or replace the learning policy.

        Raises:
            AssertionError: No env manager was set before, there is no policy to reset, or there are several.
            TypeError: ``_policy`` is not the collect mode of a policy.
        """
        if _policy is not None:
            learning = as_policies(_policy)
            if len(learning) != 1:
                raise AssertionError(f"one policy learns in a league, found {len(learning)}")
            self._snapshot = None
            _policy = learning * 2
        super().reset_policy(_policy)

    def state_dict(self) -> StateDict:
        """Return the state of the collector and of the league."""
        return {**super().state_dict(), "league": self._league.state_dict()}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore a :meth:`state_dict`; the files of the snapshots must still exist."""
        super().load_state_dict(state_dict)
        self._league.load_state_dict(state_dict["league"])

    def _segment_lengths(self, env_num: int) -> Sequence[float | None]:
        learning, opponent = self._policies
        self._default_n_episode = learning.get_attribute("n_episode")
        return [INF, INF if opponent is learning else None]

    def check_target(self) -> None:
        """See :meth:`SerialCollector.check_target`."""
        episodes_target(None, self._default_n_episode, self._ready().stepper.env.env_num)

    def collect(
        self,
        n_episode: "int | None" = None,
        train_iter: int = 0,
        policy_kwargs: "dict[str, Any] | None" = None,
    ) -> Samples:
        """Play games against one opponent.

        Args:
            n_episode: Number of games, at least the number of environments (``None``: the policy's ``n_episode``).
            train_iter: Learner iteration, used as the league's time and stored as ``collect_iter``.
            policy_kwargs: Keyword arguments of ``policy.forward`` of exploring players.

        Returns:
            Training samples of the learning policy: those of player 0, followed by those of player 1 if it played
            itself.

        Raises:
            RuntimeError: ``n_episode`` is unknown, env manager or policy is missing, or the manager is closed.
            TypeError: ``n_episode`` is not an int.
            AssertionError: ``n_episode`` is smaller than the number of environments.
            FileNotFoundError: The file of a snapshot is missing.
        """
        n_episode = episodes_target(n_episode, self._default_n_episode, self._ready().stepper.env.env_num)
        job = self._league.get_job_info(self._player)
        plays_itself = job["player_id"][1] == self._player
        self._set_opponent(None if plays_itself else job["checkpoint_path"][1])
        rollout, kwargs, results = self._ready(), policy_kwargs or {}, []
        of_opponent = kwargs if plays_itself or self._explores == "collect" else {}
        for ended in rollout.play(n_episode, [kwargs, of_opponent], [{"collect_iter": train_iter}] * 2):
            results += [game_result(scalar(own_return(infos[0]["eval_episode_return"], 0))) for _, infos in ended]
        samples: Samples = joined_samples([rollout.take_samples(player).samples for player in range(1 + plays_itself)])
        self._league.finish_job({"player_id": job["player_id"], "result": results})
        self._league.update_active_player({"player_id": self._player, "train_iteration": train_iter})
        self._league.judge_snapshot(self._player)
        self._report(train_iter)
        return samples

    # ------------------------------------------------------------------ opponents

    def _set_opponent(self, checkpoint: str | None) -> None:
        """Set player 1 to a snapshot, or to the learning policy (``None``), between two games."""
        learning = self._policies[0]
        opponent: Any = learning
        if checkpoint is not None:
            opponent = self._snapshot = self._snapshot or self._copy_of(learning)
            opponent.load_state_dict(read_file(checkpoint))
            opponent.reset()
        if opponent is not self._policies[1]:
            self._policies = [learning, opponent]
            self._start()

    def _copy_of(self, learning: CollectMode) -> CollectMode:
        """Return the mode of a second policy with a separate network."""
        model = copy.deepcopy(learning.get_attribute("model"))
        policy = create_policy(learning.get_attribute("cfg"), model=model, enable_field=[self._explores])
        mode: CollectMode = policy.collect_mode if self._explores == "collect" else policy.eval_mode
        return mode

    def _save_weights(self, source: str, target: str) -> None:
        """Write the weights of the learning policy, the only one that changes, to the file of a snapshot."""
        assert self._log is not None
        os.makedirs(os.path.dirname(target), exist_ok=True)
        save_file(target, self._policies[0].state_dict())
        self._log.text.info(f"{self._instance_name}: snapshot {target}")
