import json

import pytest
from easydict import EasyDict

from ding.policy import DQNPolicy
from ding.utils import COMMANDER_REGISTRY, deep_merge_dicts
from ding.worker import create_parallel_commander, get_parallel_commander_cls
from ding.worker.coordinator import NaiveCommander, OneVsOneCommander, SoloCommander


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def main_config(kind, **commander):
    policy = {
        "type": "dqn_command",
        "model": {"obs_shape": 4, "action_shape": 2},
        "learn": {"learner": {"train_iterations": 10}},
        "collect": {"collector": {"type": "zergling", "print_freq": 5}},
        "other": {
            "eps": {"type": "linear", "start": 1.0, "end": 0.0, "decay": 100},
            "replay_buffer": {"type": "advanced", "replay_buffer_size": 50},
            "commander": {"type": kind, "collector_task_space": 2, "learner_task_space": 1, **commander},
        },
    }
    env = {"collector_episode_num": 2, "evaluator_episode_num": 5, "stop_value": 9, "manager": {"shared_memory": False}}
    return EasyDict(env=env, policy=deep_merge_dicts(DQNPolicy.default_config(), policy), exp_name="exp")


def solo(clock=None):
    return SoloCommander(main_config("solo", eval_interval=60), clock or Clock())


def evaluation(reward, **extra):
    return {
        "eval_flag": True,
        "reward_mean": reward,
        "real_episode_count": 5,
        "step_count": 50,
        "train_iter": 3,
        **extra,
    }


def test_types():
    assert get_parallel_commander_cls(EasyDict(type="solo")) is SoloCommander
    assert COMMANDER_REGISTRY.get("one_vs_one") is OneVsOneCommander
    assert isinstance(create_parallel_commander(main_config("naive")), NaiveCommander)
    with pytest.raises(KeyError):
        get_parallel_commander_cls(EasyDict(type="sole"))
    assert SoloCommander.default_config().eval_interval == 60
    assert OneVsOneCommander.default_config().collector_task_space == 2


def test_solo_collects_nothing_before_there_is_a_learner():
    commander = solo()
    assert commander.get_collector_task() is None
    assert commander.open_tasks["collector"] == 0
    task = commander.get_learner_task()
    assert task["policy_id"].startswith("policy_")
    assert task["buffer_id"].startswith("buffer_")
    assert task["learner_cfg"] == {"train_iterations": 10, "exp_name": "exp"}
    assert task["replay_buffer_cfg"]["replay_buffer_size"] == 50
    assert commander.get_learner_task() is None


def test_solo_begins_with_an_evaluation_and_evaluates_again_after_the_interval():
    clock = Clock()
    commander = solo(clock)
    learner = commander.get_learner_task()
    first, second = commander.get_collector_task(), commander.get_collector_task()
    assert first["collector_cfg"]["eval_flag"]
    assert first["collector_cfg"]["env"]["manager"] == {"shared_memory": False, "episode_num": 5}
    assert "collector_episode_num" not in first["collector_cfg"]["env"]
    assert not second["collector_cfg"]["eval_flag"]
    assert second["collector_cfg"]["env"]["manager"]["episode_num"] == 2
    assert second["collector_cfg"]["policy_update_path"] == learner["policy_id"]
    assert second["buffer_id"] == learner["buffer_id"]
    assert commander.get_collector_task() is None
    clock.now += 100
    assert not commander.finish_collector_task(second["task_id"], {"eval_flag": False, "step_count": 40})
    third = commander.get_collector_task()
    assert not third["collector_cfg"]["eval_flag"], "one evaluation at a time"
    assert not commander.finish_collector_task(first["task_id"], evaluation(5.0))
    clock.now += 61
    assert commander.get_collector_task()["collector_cfg"]["eval_flag"]


def test_solo_tells_collectors_the_epsilon_of_all_env_steps():
    commander = solo()
    commander.get_learner_task()
    evaluate, collect = commander.get_collector_task(), commander.get_collector_task()
    assert collect["collector_cfg"]["collect_setting"] == {"eps": 1.0}
    commander.finish_collector_task(evaluate["task_id"], evaluation(1.0))
    commander.finish_collector_task(collect["task_id"], {"eval_flag": False, "step_count": 40})
    commander.update_learner_info("t", {"learner_step": 7, "priority_info": {"priority": [1.0]}})
    assert commander.get_collector_task()["collector_cfg"]["collect_setting"]["eps"] == pytest.approx(0.6)
    assert commander.state_dict()["learner"] == {"learner_step": 7}, "and not the priorities of a batch"
    assert commander.status()["envstep"] == 40


def test_solo_ends_the_run_at_the_stop_value():
    commander = solo()
    commander.get_learner_task()
    task = commander.get_collector_task()
    assert commander.finish_collector_task(task["task_id"], evaluation(9.0))
    assert commander.get_collector_task() is None
    assert commander.get_learner_task() is None
    assert commander.status()["best_return"] == 9.0


def test_an_evaluation_of_no_episode_does_not_count():
    commander = solo()
    commander.get_learner_task()
    task = commander.get_collector_task()
    assert not commander.finish_collector_task(task["task_id"], evaluation(9.0, real_episode_count=0))
    assert (commander.status()["best_return"], commander.status()["last_evaluation"]) == (None, None)


def test_a_learner_that_ends_or_fails_leaves_no_stale_ids():
    for end in ("finish", "fail"):
        commander = solo()
        task = commander.get_learner_task()
        commander.finish_collector_task(commander.get_collector_task()["task_id"], evaluation(1.0))
        if end == "finish":
            assert commander.finish_learner_task(task["task_id"], {"buffer_id": task["buffer_id"]}) == task["buffer_id"]
        else:
            commander.notify_fail_learner_task(task)
        assert commander.get_collector_task() is None
        assert commander.get_learner_task()["buffer_id"] != task["buffer_id"]
        assert commander.get_collector_task()["collector_cfg"]["eval_flag"]


def test_a_failed_evaluation_is_repeated():
    commander = solo()
    commander.get_learner_task()
    task = commander.get_collector_task()
    commander.notify_fail_collector_task(task)
    assert commander.open_tasks["collector"] == 0
    assert commander.get_collector_task()["collector_cfg"]["eval_flag"]


def test_averages_are_not_swapped(tmp_path):
    commander = solo()
    commander.get_learner_task()
    info = evaluation(1.0, avg_step_per_episode=10.0, avg_time_per_episode=0.5)
    commander.finish_collector_task(commander.get_collector_task()["task_id"], info)
    assert commander.status()["last_evaluation"]["avg_step_per_episode"] == 10.0
    assert commander.status()["last_evaluation"]["avg_time_per_episode"] == 0.5


def test_solo_goes_on_after_a_restart():
    clock = Clock()
    commander = solo(clock)
    commander.get_learner_task()
    commander.finish_collector_task(commander.get_collector_task()["task_id"], evaluation(2.0))
    done, running = commander.get_collector_task(), commander.get_collector_task()
    commander.finish_collector_task(done["task_id"], {"eval_flag": False, "step_count": 30})
    clock.now += 20
    other_clock = Clock()
    other_clock.now = 5.0
    other = solo(other_clock)
    other.load_state_dict(json.loads(json.dumps(commander.state_dict())), collectors=1, learners=1)
    assert other.get_learner_task() is None
    assert not other.finish_collector_task(running["task_id"], {"eval_flag": False, "step_count": 10})
    assert other.status()["envstep"] == 40
    assert not other.get_collector_task()["collector_cfg"]["eval_flag"]
    other_clock.now += 41
    assert other.get_collector_task()["collector_cfg"]["eval_flag"]


def one_vs_one(clock=None, **league):
    return OneVsOneCommander(main_config("one_vs_one", eval_interval=60, league=league), clock or Clock())


def test_one_vs_one_tasks_are_read_by_attribute_and_may_fail_without_a_name():
    commander = one_vs_one()
    commander.get_learner_task()
    task = commander.get_collector_task()
    assert task["collector_cfg"].env.eval_opponent == "RULE_BASED"
    assert commander.open_tasks["collector"] == 1
    commander.notify_fail_collector_task({})
    assert commander.open_tasks["collector"] == 0


def test_one_vs_one_follows_the_sequence_of_the_original():
    clock = Clock()
    commander = one_vs_one(clock)
    assert commander.get_collector_task() is None
    learner = commander.get_learner_task()
    assert commander.open_tasks["learner"] == 1
    assert learner["policy_id"].startswith("policy_")
    assert learner["league_save_checkpoint_path"] == "naive_sp_player_default_0_ckpt.pth"
    assert commander.get_learner_task() is None
    evaluator, collector = commander.get_collector_task(), commander.get_collector_task()
    assert evaluator["task_id"].startswith("evaluator_task_")
    cfg = evaluator["collector_cfg"]
    assert (cfg["eval_flag"], cfg["env"]["eval_opponent"], len(cfg["policy"])) == (True, "RULE_BASED", 1)
    assert (cfg["policy_update_flag"], cfg["policy_update_path"]) == ([True], [learner["league_save_checkpoint_path"]])
    cfg = collector["collector_cfg"]
    assert collector["task_id"].startswith("collector_task_")
    assert (len(cfg["policy"]), cfg["policy_update_flag"]) == (2, [True, True])
    assert "eval_opponent" not in cfg["env"]
    assert commander.get_collector_task() is None
    assert not commander.finish_collector_task(
        evaluator["task_id"], evaluation(1.0, game_result=[["losses"], ["wins"]])
    )
    result = {"eval_flag": False, "step_count": 20, "game_result": [["wins", "draws"], ["losses"]]}
    assert not commander.finish_collector_task(collector["task_id"], result)
    assert commander.open_tasks["collector"] == 0
    clock.now += 61
    task = commander.get_collector_task()
    assert commander.finish_collector_task(task["task_id"], evaluation(9.5, game_result=[["wins"] * 10]))
    assert commander.state_dict()["end"]
    assert commander.get_collector_task() is None
    commander.notify_fail_learner_task(learner)
    assert commander.open_tasks["learner"] == 0


@pytest.mark.parametrize(("reward", "results"), [(9.5, ["wins", "losses"]), (8.0, ["wins"])])
def test_an_evaluation_must_be_won_and_reach_the_stop_value(reward, results):
    commander = one_vs_one()
    commander.get_learner_task()
    task = commander.get_collector_task()
    assert not commander.finish_collector_task(task["task_id"], evaluation(reward, game_result=[results]))
    assert commander.get_collector_task() is not None


def test_a_won_evaluation_against_an_easy_opponent_raises_the_difficulty():
    player = {"one_phase_step": 10, "branch_probs": {"sp": 1.0}, "strong_win_rate": 0.7}
    clock = Clock()
    commander = one_vs_one(clock, naive_sp_player={**player, "eval_opponent_difficulty": ["EASY", "HARD"]})
    commander.get_learner_task()
    for opponent, stops in (("EASY", False), ("HARD", True)):
        task = commander.get_collector_task()
        assert task["collector_cfg"]["env"]["eval_opponent"] == opponent
        assert commander.finish_collector_task(task["task_id"], evaluation(9.5, game_result=[["wins"]])) is stops
        assert commander.status()["last_evaluation"]["opponent"] == opponent
        clock.now += 61


def test_returns_against_an_easier_opponent_are_not_the_best_ones():
    player = {"one_phase_step": 10, "branch_probs": {"sp": 1.0}, "eval_opponent_difficulty": ["EASY", "HARD"]}
    clock = Clock()
    commander = one_vs_one(clock, naive_sp_player=player)
    commander.get_learner_task()
    for reward, result, best in ((8.0, "wins", 8.0), (2.0, "losses", 2.0), (1.0, "losses", 2.0)):
        task = commander.get_collector_task()
        # The coordinator is restarted meanwhile.
        restarted = one_vs_one(clock, naive_sp_player=player)
        restarted.load_state_dict(json.loads(json.dumps(commander.state_dict())), collectors=1, learners=1)
        commander = restarted
        commander.finish_collector_task(task["task_id"], evaluation(reward, game_result=[[result]]))
        assert commander.status()["best_return"] == best
        clock.now += 61


def test_snapshots_are_taken_through_the_weight_plane_and_survive_a_restart(tmp_path):
    import torch

    from ding.parallel.planes import FileWeightPlane

    commander = one_vs_one()
    commander.get_learner_task()
    assert not commander.update_learner_info("t", {"learner_step": 25})
    assert commander.league.historical_players_ids == [], "nothing was published yet"
    FileWeightPlane(".", "naive_sp_player_default_0_ckpt.pth").publish({"model": {"w": torch.ones(2)}}, 25)
    assert commander.update_learner_info("t", {"learner_step": 26}), "to be written down at once"
    assert commander.league.historical_players_ids == ["naive_sp_player_default_0_26_historical"]
    copied = FileWeightPlane(".", "naive_sp_player_default_0_ckpt_26.pth").fetch()
    assert copied.version == 25
    assert copied.state["model"]["w"].tolist() == [1.0, 1.0]
    other = one_vs_one()
    other.load_state_dict(json.loads(json.dumps(commander.state_dict())))
    assert other.league.historical_players_ids == commander.league.historical_players_ids
    assert other.league.active_players[0].total_agent_step == 26
