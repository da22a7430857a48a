"""Test envs and the common functions of envs."""

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
    common_function,
    div_func,
    div_one_hot,
    get_postion_vector,
    num_first_one_hot,
    reorder_boolean_vector,
    reorder_one_hot,
    reorder_one_hot_array,
    save_frames_as_gif,
    sqrt_one_hot,
)
from ding.envs.testing import CountingEnv, CountingGymEnv, Fault, InjectedFault


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


class TestNumbersOfTheReference:
    """Results of DI-engine 0.5.3."""

    def test_reordered_one_hot_by_an_array(self):
        table = np.array([0, 2, 4, 6, 8, 1])
        assert reorder_one_hot_array(torch.tensor([1, 5]), table, 9).argmax(1).tolist() == [2, 1]
        assert reorder_one_hot_array(torch.tensor([1]), table, 9, np.array([3, 4])).argmax(1).tolist() == [8]

    def test_bits_and_frequencies(self):
        assert common_function.get_to_and(5).tolist() == [[16, 8, 4, 2, 1]]
        frequencies = common_function.compute_denominator(torch.tensor([0.0, 1, 2, 3, 5, 7]))
        torch.testing.assert_close(frequencies, torch.tensor([1, 1, 0.7499, 0.7499, 0.5623, 0.4217]), atol=1e-4, rtol=0)

    def test_positions(self):
        one = get_postion_vector(3.0)
        assert one[:3].tolist() == pytest.approx([0.14112, -0.98999, 0.77827], abs=1e-5)
        for same in ([3.0], torch.tensor([3.0]), torch.full((32,), 3.0)):
            torch.testing.assert_close(get_postion_vector(same), one)

    def test_classes_first_or_last(self):
        assert num_first_one_hot(torch.tensor([1, 0]), 3).tolist() == [[0, 1], [1, 0], [0, 0]]
        assert num_first_one_hot(torch.tensor([1, 0]), 3, num_first=False).tolist() == [[0, 1, 0], [1, 0, 0]]
