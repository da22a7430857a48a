"""States and seeds of a manager's envs, and the common functions of envs."""

import numpy as np
import pytest
import torch

from ding.envs.common import (
    EnvElement,
    EnvElementInfo,
    EnvElementRunner,
    affine_transform,
    batch_binary_encode,
    clip_one_hot,
    div_func,
    div_one_hot,
    get_postion_vector,
    num_first_one_hot,
    reorder_boolean_vector,
    reorder_one_hot,
    save_frames_as_gif,
    sqrt_one_hot,
)
from ding.envs.env_manager._lifecycle import EnvLifecycle, EnvState
from ding.envs.env_manager._obs_board import ObsBoard
from ding.envs.env_manager._obs_check import has_nan
from ding.envs.testing import CountingEnv, CountingGymEnv, Fault, InjectedFault


class TestLifecycle:
    def test_ready_ids_follow_the_states(self):
        life = EnvLifecycle(3)
        assert life.ready_ids == []
        life.mark_all(EnvState.RUN)
        first = life.ready_array
        assert life.ready_array is first
        life.mark(1, EnvState.RESET)
        assert life.ready_ids == [0, 2]
        assert life.ready_array.tolist() == [0, 2]
        with pytest.raises(AssertionError, match=r"env 1 .* RESET"):
            life.check_running([0, 1])
        with pytest.raises(AssertionError, match="no env 3"):
            life.check_running([3])

    def test_episodes(self):
        life = EnvLifecycle(2, episode_num=2)
        assert life.count_episode(0)
        assert not life.count_episode(0)
        life.mark_all(EnvState.INIT)
        assert life.episode_counts == [0, 0]

    def test_a_seed_is_taken_once(self):
        life = EnvLifecycle(2)
        assert life.set_seed(7, dynamic_seed=False) == 7
        assert life.take_seed(1) == (8, False)
        assert life.take_seed(1) is None
        assert life.static_seed(1) == 8

    def test_seeds_of_rebuilt_envs_differ_and_repeat(self):
        def renewals():
            life = EnvLifecycle(1)
            life.set_seed(7)
            return [life.renewal_seed(0) for _ in range(3)]

        assert renewals() == renewals()
        assert len({args[0] for args in renewals()} | {7}) == 4
        assert EnvLifecycle(1).renewal_seed(0) is None

    def test_bad_seeds(self):
        life = EnvLifecycle(2)
        for bad in ("3", None, True, {}, 1.5):
            with pytest.raises(TypeError, match="seed must be"):
                life.set_seed(bad)
        with pytest.raises(AssertionError, match=r"unknown envs \[5\]"):
            life.set_seed({5: 1})

    def test_reset_arguments(self):
        life = EnvLifecycle(2)
        assert life.remember_reset({1: {"a": 1}}) == [1]
        assert life.remember_reset({1: None}) == [1]
        assert life.reset_kwargs(1) == {"a": 1}
        assert life.remember_reset(None) == [0, 1]
        with pytest.raises(AssertionError, match="unknown env 2"):
            life.remember_reset({2: None})


class TestObsBoard:
    def ready(self, board, ids):
        return board.batch(ids, np.array(ids))

    def test_columns_pass_through_untouched(self):
        board = ObsBoard()
        columns = np.arange(6.0).reshape(3, 2)
        board.write([0, 1, 2], columns)
        assert self.ready(board, [0, 1, 2]).columns is columns

    def test_rows_lie_over_columns_without_writing_to_them(self):
        board = ObsBoard()
        columns = np.zeros((3, 2))
        board.write([0, 1, 2], columns)
        board.write_row(1, np.ones(2))
        assert self.ready(board, [0, 1, 2]).columns.tolist() == [[0, 0], [1, 1], [0, 0]]
        assert not columns.any()

    def test_partial_writes_and_changing_readiness(self):
        board = ObsBoard()
        board.write([0, 1, 2], np.zeros((3, 1)))
        board.write([2, 0], np.array([[2.0], [1.0]]))
        assert self.ready(board, [0, 2]).columns.tolist() == [[1], [2]]
        assert self.ready(board, [0, 1, 2]).columns.tolist() == [[1], [0], [2]]
        assert len(self.ready(board, [])) == 0
        assert self.ready(board, [1]).columns.tolist() == [[0]]
        board.write_row(2, np.array([9.0]))
        assert board.row(2).tolist() == [9.0]
        assert self.ready(board, [1, 2]).columns.tolist() == [[0], [9]]


def test_has_nan():
    assert has_nan(np.array([[1.0, np.nan], [np.inf, 0.0]]))
    assert not has_nan(np.array([[1.0, -np.inf], [np.inf, 1e38]], dtype=np.float32))
    assert not has_nan(np.array([1, 2]))
    assert not has_nan(np.empty((0, 3)))


class TestCountingEnvs:
    def test_numbers(self):
        env = CountingEnv({"episode_length": [2, 1]})
        assert env.reset().tolist() == [0, 0]
        assert env.step(0)[:3] == (pytest.approx([0, 1]), pytest.approx([1.0]), False)
        assert env.step(0).info == {"eval_episode_return": 3.0}
        assert env.reset().tolist() == [1, 0]
        assert env.step(0).done

    def test_faults(self):
        env = CountingGymEnv(fault=Fault("raise", step=2, episode=1, times=1))
        env.reset()
        env.step(0)
        env.step(0)
        env.reset()
        env.step(0)
        with pytest.raises(InjectedFault, match="episode 1, step 2"):
            env.step(0)
        with pytest.raises(ValueError, match="hang"):
            Fault("hank")


class TestFunctions:
    def test_affine_transform(self):
        assert affine_transform(np.array([-2.0, 0.0, 1.0]), min_val=0.0, max_val=10.0).tolist() == [0.0, 5.0, 10.0]
        assert affine_transform(np.array([2.0]), action_clip=False, alpha=3.0, beta=1.0).tolist() == [7.0]
        assert affine_transform(torch.tensor([0.5]), alpha=2.0).tolist() == [1.0]
        with pytest.raises(ValueError, match="alpha, or both"):
            affine_transform(1.0)

    def test_one_hots(self):
        assert div_one_hot(torch.tensor([0, 9, 20]), 20, 10).argmax(-1).tolist() == [0, 0, 2]
        assert div_one_hot(torch.tensor([0]), 20, 10).shape == (1, 3)
        assert sqrt_one_hot(torch.tensor([0, 8, 16]), 16).argmax(-1).tolist() == [0, 2, 4]
        assert clip_one_hot(torch.tensor([-1, 1, 7]), 3).argmax(-1).tolist() == [0, 1, 2]
        assert num_first_one_hot(torch.tensor([1, 0]), 3).tolist() == [[0, 1], [1, 0], [0, 0]]
        assert reorder_one_hot(torch.tensor([10, 20]), {10: 1, 20: 0}, 2).tolist() == [[0, 1], [1, 0]]
        assert reorder_boolean_vector([10, 20], {10: 1, 20: 0}, 3).tolist() == [1, 1, 0]

    def test_numbers(self):
        assert div_func(torch.tensor([2, 4]), 2).tolist() == [[1.0], [2.0]]
        assert batch_binary_encode(torch.tensor([5, 2]), 4).tolist() == [[0, 1, 0, 1], [0, 0, 1, 0]]
        vector = get_postion_vector(1.0)
        assert vector.shape == (64,)
        np.testing.assert_allclose(vector[:2], [np.sin(1.0), np.cos(1.0)], rtol=1e-6)

    def test_gif(self, tmp_path):
        pytest.importorskip("imageio")
        save_frames_as_gif([np.zeros((8, 8, 3), np.uint8)] * 2, str(tmp_path / "sub" / "a.gif"))
        assert (tmp_path / "sub" / "a.gif").stat().st_size > 0

    def test_gif_without_frames(self, tmp_path):
        with pytest.raises(ValueError, match="at least one frame"):
            save_frames_as_gif([], str(tmp_path / "a.gif"))


class TestElements:
    def test_element_and_runner(self):
        class Speed(EnvElement):
            _name = "Speed"

            def _init(self):
                self._shape, self._value = (1,), {"min": 0, "max": 1}

            def _details(self):
                return "m/s"

        class SpeedRunner(EnvElementRunner):
            def _init(self):
                self._core = Speed()

            def get(self, engine):
                return engine * 2

            def reset(self):
                pass

        runner = SpeedRunner()
        assert runner.info == EnvElementInfo(shape=(1,), value={"min": 0, "max": 1})
        assert repr(runner) == "Speed: m/s"
        assert runner.get(2) == 4
        assert Speed() is Speed()

    def test_an_element_without_shape(self):
        class Empty(EnvElement):
            def _init(self):
                pass

            def _details(self):
                return ""

        with pytest.raises(AttributeError, match="_shape and _value"):
            Empty()
