import gc
import threading

import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding.data import TransitionBatch
from ding.utils.file_helper import read_file
from ding.worker import BaseLearner, LearnerHook, create_learner
from ding.worker.testing import BatchedScriptedPolicy, ScriptedPolicy


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class RecordingWriter:
    def __init__(self):
        self.calls = []

    def add_scalar(self, tag, value, step):
        self.calls.append((tag, value, step))

    def add_histogram(self, tag, values, step):
        self.calls.append((tag, values, step))

    def flush(self):
        pass

    def close(self):
        raise AssertionError("a shared writer must stay open")


class CallHook(LearnerHook):
    def __init__(self, function, position="after_iter", priority=50):
        super().__init__("call", priority, position=position)
        self.function = function

    def __call__(self, engine):
        self.function(engine)


def config(**hook):
    cfg = BaseLearner.default_config()
    cfg.hook.update(hook)
    return cfg


def make(policy=None, cfg=None, **kwargs):
    policy = ScriptedPolicy() if policy is None else policy
    kwargs.setdefault("tb_logger", RecordingWriter())
    return BaseLearner(config() if cfg is None else cfg, policy.learn_mode, exp_name="exp", **kwargs)


def ckpt_names(tmp_path, folder="ckpt"):
    return sorted(path.name for path in (tmp_path / "exp" / folder).glob("*.pth.tar"))


# -------------------------------------------------------------------- train


def test_train_counts_and_returns_the_log_dicts():
    policy = ScriptedPolicy(learn_output={"total_loss": 1.0, "cur_lr": 0.1})
    learner = make(policy)
    data = [{"obs": 1}]
    assert learner.train(data, envstep=7) == [{"total_loss": 1.0, "cur_lr": 0.1}]
    assert policy.learned == [data]
    assert (learner.train_iter, learner.last_iter.val, learner.collector_envstep) == (1, 1, 7)
    assert learner.learn_info == {"learner_step": 1, "priority_info": {}, "learner_done": False}


def test_envstep_is_kept_when_it_is_not_given():
    learner = make()
    learner.train([{}], envstep=7)
    learner.train([{}])
    assert learner.collector_envstep == 7


def test_no_env_steps_so_far_is_a_number_too():
    learner = make()
    learner.collector_envstep = 7
    learner.train([{}], envstep=0)
    assert learner.collector_envstep == 0


def test_hooks_see_the_iteration_before_the_increment_and_each_log_dict():
    policy = ScriptedPolicy(learn_output=[{"total_loss": 1.0, "cur_lr": 0.1}, {"total_loss": 2.0, "cur_lr": 0.1}])
    learner = make(policy)
    seen = []
    learner.register_hook(CallHook(lambda engine: seen.append("before"), "before_iter"))
    learner.register_hook(
        CallHook(lambda engine: seen.append((engine.train_iter, engine.log_buffer["scalar"]["total_loss"])), priority=1)
    )
    learner.train([{}])
    learner.train([{}])
    assert seen == ["before", (0, 1.0), (1, 2.0), "before", (2, 1.0), (3, 2.0)]


def test_train_time_is_there_in_the_same_iteration():
    learner = make()
    seen = []
    learner.register_hook(CallHook(lambda engine: seen.append(engine.log_buffer["scalar"]["train_time"]), priority=1))
    learner.train([{}])
    assert len(seen) == 1
    assert seen[0] > 0


def test_policy_kwargs_are_passed_on():
    policy = ScriptedPolicy(learn_output=lambda data, scale: {"total_loss": scale, "cur_lr": 0.0})
    assert make(policy).train([{}], policy_kwargs={"scale": 3.0})[0]["total_loss"] == 3.0


@pytest.mark.parametrize("output", [None, 1.0, ["loss"], ({},)])
def test_other_outputs_are_refused(output):
    with pytest.raises(TypeError, match="dict or a list of dicts"):
        make(ScriptedPolicy(learn_output=lambda data: output)).train([{}])


def test_training_needs_a_policy():
    learner = BaseLearner(config(), tb_logger=RecordingWriter())
    with pytest.raises(AssertionError, match="no policy"):
        learner.train([{}])
    learner.policy = ScriptedPolicy().learn_mode
    learner.train([{}])
    assert learner.train_iter == 1


# -------------------------------------------------------------------- priority


IDS = {"replay_buffer_idx": np.array([4, 5, 6]), "replay_unique_id": ["a", "b", "c"]}
LOG = {"total_loss": 1.0, "cur_lr": 0.1}


def rows():
    return [{"obs": 0.0, "replay_buffer_idx": i, "replay_unique_id": u} for i, u in zip((4, 5, 6), "abc")]


@pytest.mark.parametrize("policy_cls", [ScriptedPolicy, BatchedScriptedPolicy])
@pytest.mark.parametrize("batch", [True, False])
def test_priority_info(policy_cls, batch):
    policy = policy_cls(learn_output={**LOG, "priority": np.array([1.0, 2.0, 3.0])})
    learner = make(policy)
    data = TransitionBatch({"obs": torch.zeros(3, 2), **IDS}) if batch else rows()
    assert learner.train(data) == [LOG]
    info = learner.priority_info
    assert list(info["priority"]) == [1.0, 2.0, 3.0]
    assert list(info["replay_buffer_idx"]) == [4, 5, 6]
    assert list(info["replay_unique_id"]) == ["a", "b", "c"]
    assert learner.learn_info["priority_info"] is info
    (seen,) = policy.learned
    assert isinstance(seen, TransitionBatch) == (batch and policy_cls is BatchedScriptedPolicy)


def test_ids_of_a_batch_cost_no_rows():
    data = TransitionBatch({"obs": torch.zeros(3, 2), **IDS})
    make(BatchedScriptedPolicy(learn_output={**LOG, "priority": [1.0, 2.0, 3.0]})).train(data)
    assert "materialised" not in repr(data)


def test_priority_info_is_that_of_the_last_call():
    outputs = iter([{**LOG, "priority": [1.0]}, dict(LOG)])
    learner = make(ScriptedPolicy(learn_output=lambda data: next(outputs)))
    learner.train([{}])
    assert learner.priority_info == {"priority": [1.0], "replay_buffer_idx": [None], "replay_unique_id": [None]}
    learner.train([{}])
    assert learner.priority_info == {}


def test_priority_comes_from_the_last_log_dict():
    policy = ScriptedPolicy(learn_output=[dict(LOG), {**LOG, "priority": [3.0, 4.0]}])
    learner = make(policy)
    learner.train([{}])
    assert learner.priority_info["priority"] == [3.0, 4.0]  # may have another length than the batch


def test_priority_for_data_without_samples_is_told():
    with pytest.raises(TypeError, match="'priority' for data without samples"):
        make(ScriptedPolicy(learn_output={**LOG, "priority": [1.0]})).train({"obs": 1})


# -------------------------------------------------------------------- logs


def test_values_are_shown_every_freq_iterations():
    losses = iter([1, 2.0, torch.tensor(3.0), np.float32(6)])
    policy = ScriptedPolicy(learn_output=lambda data: {"total_loss": next(losses), "cur_lr": 0.5})
    writer = RecordingWriter()
    learner = make(policy, config(log_show_after_iter=3), tb_logger=writer)
    for step in (10, 20, 30, 40):
        learner.train([{}], envstep=step)
    assert writer.calls == [
        ("learner_iter/cur_lr_avg", 0.5, 0),
        ("learner_iter/total_loss_avg", 1.0, 0),
        ("learner_step/cur_lr_avg", 0.5, 10),
        ("learner_step/total_loss_avg", 1.0, 10),
        ("learner_iter/cur_lr_avg", 0.5, 3),
        ("learner_iter/total_loss_avg", 3.0, 3),
        ("learner_step/cur_lr_avg", 0.5, 40),
        ("learner_step/total_loss_avg", 3.0, 40),
    ]
    assert all(not buffer for buffer in learner.log_buffer.values())


def test_groups_and_histograms_are_written_when_shown():
    output = {**LOG, "[scalars]parts": {"a": 1.0, "b": 2.0}, "[histogram]q": torch.tensor([1.0, 2.0])}
    writer = RecordingWriter()
    learner = make(ScriptedPolicy(learn_output=output), tb_logger=writer)
    assert learner.train([{}], envstep=5) == [LOG]
    learner.train([{}])
    assert [call[:2] for call in writer.calls] == [
        ("learner_iter/cur_lr_avg", 0.1),
        ("learner_iter/total_loss_avg", 1.0),
        ("learner_iter/parts/a", 1.0),
        ("learner_iter/parts/b", 2.0),
        ("learner_step/cur_lr_avg", 0.1),
        ("learner_step/total_loss_avg", 1.0),
        ("learner/q", [1.0, 2.0]),
    ]
    assert [call[2] for call in writer.calls] == [0, 0, 0, 0, 5, 5, 0]


def test_average_covers_ten_iterations():
    losses = iter(float(i) for i in range(21))
    policy = ScriptedPolicy(learn_output=lambda data: {"total_loss": next(losses), "cur_lr": 0.5})
    writer = RecordingWriter()
    learner = make(policy, config(log_show_after_iter=20), tb_logger=writer)
    for _ in range(21):
        learner.train([{}])
    assert ("learner_iter/total_loss_avg", 15.5, 20) in writer.calls  # 11 ... 20


def test_text_log(tmp_path):
    learner = make()
    learner.train([{}])
    learner.debug("not shown")
    text = (tmp_path / "exp/log/learner/learner_logger.txt").read_text()
    assert "[RANK0]: ScriptedPolicy()" in text
    assert "total_loss_avg" in text
    assert "not shown" not in text


def test_policy_text_can_be_left_out(tmp_path):
    cfg = config()
    cfg.log_policy = False
    make(cfg=cfg)
    assert "ScriptedPolicy()" not in (tmp_path / "exp/log/learner/learner_logger.txt").read_text()


# -------------------------------------------------------------------- ranks


@pytest.mark.parametrize(("multitask", "monitors"), [(False, False), (True, True)])
def test_other_ranks_monitor_only_their_own_tasks(tmp_path, multitask, monitors):
    cfg = config(save_ckpt_after_iter=1)
    cfg.is_multitask_pipeline = multitask
    learner = make(cfg=cfg, dist_info=(1, 1))
    learner.train([{}])
    learner.save_checkpoint("x.pth.tar")
    assert (learner.rank, learner.world_size) == (1, 1)
    assert learner.only_monitor_rank0 is not monitors
    assert (learner.monitor is not None) == monitors
    assert (learner.tb_logger is not None) == monitors
    assert bool(learner.tb_logger and learner.tb_logger.calls) == monitors
    assert not learner.log_buffer["scalar"]
    assert ckpt_names(tmp_path) == []


def test_several_ranks_average_their_logs_and_leave_the_config_alone():
    cfg = config()
    before = dict(cfg.hook)
    learner = make(cfg=cfg, dist_info=(0, 2))
    assert [hook.name for hook in learner.hooks["after_iter"]] == [
        "log_reduce_after_iter",
        "log_show",
        "save_ckpt_after_iter",
    ]
    assert dict(cfg.hook) == before


# -------------------------------------------------------------------- checkpoints


def test_checkpoints_of_a_resumed_run(tmp_path):
    first = make(cfg=config(save_ckpt_after_iter=5))
    first.last_iter.update(5)
    first.collector_envstep = 77
    first.policy.state_dict()["model"]["weight"] += 3
    first.save_checkpoint("start.pth.tar")
    path = tmp_path / "exp/ckpt/start.pth.tar"
    assert {k: v for k, v in read_file(str(path)).items() if k != "model"} == {"last_iter": 5, "last_step": 77}

    policy = ScriptedPolicy()
    learner = make(policy, config(save_ckpt_after_iter=5, load_ckpt_before_run=str(path)))
    learner.call_hook("before_run")
    assert (learner.train_iter, learner.collector_envstep) == (5, 77)
    assert policy.weights["weight"].tolist() == [3.0, 3.0]
    for _ in range(10):
        learner.train([{}])
    learner.call_hook("after_run")
    assert ckpt_names(tmp_path) == [
        "iteration_10.pth.tar",
        "iteration_15.pth.tar",
        "iteration_5.pth.tar",
        "start.pth.tar",
    ]
    raw = torch.load(tmp_path / "exp/ckpt/iteration_15.pth.tar", weights_only=True)
    assert (raw["last_iter"], raw["last_step"], raw["model"]["weight"].tolist()) == (15, 77, [3.0, 3.0])


def test_save_checkpoint_uses_the_hook_of_that_name_and_forgets_the_name(tmp_path):
    learner = make()
    learner.save_checkpoint("ckpt_best.pth.tar")
    assert learner.ckpt_name is None
    learner.save_checkpoint()
    assert ckpt_names(tmp_path) == ["ckpt_best.pth.tar", "iteration_0.pth.tar"]


def test_a_name_that_was_assigned_holds_for_one_checkpoint(tmp_path):
    learner = make()
    learner.ckpt_name = "mine.pth.tar"
    learner.save_checkpoint()
    assert learner.ckpt_name is None
    learner.save_checkpoint()
    assert ckpt_names(tmp_path) == ["iteration_0.pth.tar", "mine.pth.tar"]


def test_save_checkpoint_needs_no_hook(tmp_path):
    learner = make(cfg=config(save_ckpt_after_run=False))
    learner.call_hook("after_run")
    assert ckpt_names(tmp_path) == []
    learner.save_checkpoint("ckpt_best.pth.tar")
    assert ckpt_names(tmp_path) == ["ckpt_best.pth.tar"]


@pytest.mark.parametrize("with_hook", [True, False])
def test_only_rank_0_saves(tmp_path, with_hook):
    for rank in (1, 0):
        make(cfg=config(save_ckpt_after_run=with_hook), dist_info=(rank, 2)).save_checkpoint(f"of_{rank}.pth.tar")
    assert ckpt_names(tmp_path) == ["of_0.pth.tar"]


def test_other_instances_have_their_own_folder(tmp_path):
    make(instance_name="second").save_checkpoint("x.pth.tar")
    assert ckpt_names(tmp_path, "ckpt_second") == ["x.pth.tar"]
    assert (tmp_path / "exp/log/second/second_logger.txt").exists()


def test_missing_checkpoint_is_an_error():
    learner = make(cfg=config(load_ckpt_before_run="nowhere.pth.tar"))
    with pytest.raises(FileNotFoundError, match=r"nowhere\.pth\.tar"):
        learner.call_hook("before_run")


# -------------------------------------------------------------------- life


def test_close_closes_only_an_own_writer(tmp_path):
    shared = make()
    shared.close()
    shared.close()
    own = BaseLearner(config(log_show_after_iter=1), ScriptedPolicy().learn_mode, exp_name="exp")
    own.train([{}])
    assert own.tb_logger.is_open
    own.close()
    assert not own.tb_logger.is_open
    assert list((tmp_path / "exp/log/learner/learner_tb_logger").glob("events*"))


def test_learner_goes_without_the_garbage_collector():
    closed = []

    class Watched(BaseLearner):
        def close(self):
            closed.append(True)
            super().close()

    gc.collect()
    gc.disable()
    try:
        learner = Watched(config(), ScriptedPolicy().learn_mode, tb_logger=RecordingWriter(), exp_name="exp")
        learner.train([{}])
        del learner
        assert closed == [True]
    finally:
        gc.enable()


def test_half_built_learner_is_dropped_silently():
    with pytest.raises(ValueError, match="short key"):
        BaseLearner(EasyDict(hook={"nonsense": 1}), tb_logger=RecordingWriter())


def test_create_learner():
    assert type(create_learner(EasyDict(type="base", **config()), tb_logger=RecordingWriter())) is BaseLearner
    with pytest.raises(KeyError, match="Did you mean 'base'"):
        create_learner(EasyDict(type="bose"))
    with pytest.raises(KeyError, match=r"learner\.type is missing: one of .*base"):
        create_learner(EasyDict())


def test_default_config():
    cfg = BaseLearner.default_config()
    assert cfg == {
        "train_iterations": int(1e9),
        "dataloader": {"num_workers": 0},
        "log_policy": True,
        "is_multitask_pipeline": False,
        "only_monitor_rank0": True,
        "keep_last": None,
        "on_disk_full": "end",
        "hook": {
            "load_ckpt_before_run": "",
            "log_show_after_iter": 100,
            "save_ckpt_after_iter": 10000,
            "save_ckpt_every_minutes": None,
            "save_ckpt_after_run": True,
        },
        "cfg_type": "BaseLearnerDict",
    }
    cfg.hook.log_show_after_iter = 1
    assert BaseLearner.default_config().hook.log_show_after_iter == 100


# -------------------------------------------------------------------- parallel mode


class NumberedSamples:
    """A data source of the parallel mode; says when it was asked ``num`` times."""

    def __init__(self):
        self.num_asked = 0

    def __call__(self, batch_size):
        self.num_asked += 1
        return [{"obs": self.num_asked}] * batch_size


def test_start_trains_what_the_loader_gives(tmp_path):
    policy = ScriptedPolicy(attributes={"batch_size": 2})
    cfg = config()
    cfg.train_iterations = 3
    learner = make(policy, cfg)
    learner.get_data = NumberedSamples()
    learner.setup_dataloader()
    infos = []
    learner.register_hook(CallHook(lambda engine: infos.append(engine.learn_info["learner_done"])))
    learner.register_hook(CallHook(lambda engine: infos.append(engine.learn_info["learner_done"]), "after_run"))
    learner.start()
    learner.close()
    assert learner.train_iter == 3
    assert len(policy.learned) == 3
    assert infos == [False, False, False, True]
    assert "iteration_3.pth.tar" in ckpt_names(tmp_path)


def test_closed_learner_stops_without_after_run_hooks(tmp_path):
    policy = ScriptedPolicy(attributes={"batch_size": 2})
    learner = make(policy, config(save_ckpt_after_iter=None))
    learner.get_data = NumberedSamples()
    learner.setup_dataloader()
    trained = threading.Event()
    learner.register_hook(CallHook(lambda engine: trained.set()))
    thread = threading.Thread(target=learner.start)
    thread.start()
    assert trained.wait(20)
    learner.close()
    thread.join(20)
    assert not thread.is_alive()
    assert learner.learn_info["learner_done"] is False
    assert ckpt_names(tmp_path) == []
    count = learner.train_iter
    learner.start()  # a closed learner does not begin again
    assert learner.train_iter == count


def test_of_several_learners_none_leaves_out_a_batch_that_the_others_train_on():
    class Batches:
        """The loaders of all ranks end together, some batches after this one was told to close."""

        def __init__(self, batches):
            self.batches = iter(batches)

        def __next__(self):
            return next(self.batches)

        def close(self):
            pass

    def train(world_size):
        learner = make(dist_info=(0, world_size))
        learner.hooks["after_iter"].clear()  # averaging the log needs other processes
        learner.setup_dataloader(Batches([[{}], [{}], [{}], None]))
        learner.register_hook(CallHook(lambda engine: engine.close(), priority=0))
        learner.start()
        return learner.train_iter, learner.learn_info["learner_done"]

    assert train(2) == (3, False)
    assert train(1) == (1, False)


def test_failure_saves_a_checkpoint_and_goes_on_to_the_caller(tmp_path):
    def fail(data):
        raise FloatingPointError("no more")

    learner = make(ScriptedPolicy(learn_output=fail, attributes={"batch_size": 2}))
    learner.get_data = NumberedSamples()
    learner.setup_dataloader()
    with pytest.raises(FloatingPointError, match="no more"):
        learner.start()
    learner.close()
    assert ckpt_names(tmp_path) == ["ckpt_exception.pth.tar"]
