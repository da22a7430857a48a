"""Thread fitting, shapes, statistics, metrics, parameters, distributions, schedules, losses, checkpoints."""

import math
import os
import signal
import subprocess
import sys
from itertools import pairwise, permutations

import numpy as np
import pytest
import torch
from torch import nn

import ding.torch_utils as torch_utils
from ding.torch_utils import (
    CategoricalPd,
    CategoricalPdPytorch,
    ContrastiveLoss,
    CountVar,
    DataParallel,
    LabelSmoothCELoss,
    MultiLogitsLoss,
    NonegativeParameter,
    SoftFocalLoss,
    TanhParameter,
    auto_checkpoint,
    build_ce_criterion,
    build_checkpoint_helper,
    cos_lr_scheduler,
    cov,
    fit_num_threads,
    fold_batch,
    hamming_distance,
    is_differentiable,
    levenshtein_distance,
    unfold_batch,
    unsqueeze_repeat,
)
from ding.torch_utils.distribution import Pd
from ding.torch_utils.loss.multi_logits_loss import min_cost_assignment
from ding.torch_utils.threads import largest_layer_macs, quota_cores, threads_for_work


def mlp(*sizes):
    return nn.Sequential(*[nn.Linear(a, b) for a, b in pairwise(sizes)])


class TestThreads:
    def test_small_networks_get_one_thread(self):
        assert fit_num_threads(mlp(4, 128, 128, 64, 2), 64, cores=16) == 1

    def test_large_networks_use_the_cores(self):
        assert fit_num_threads(mlp(1024, 2048, 2048), 64, cores=16) == 16
        assert fit_num_threads(mlp(1024, 2048, 2048), 64, cores=4) == 4

    def test_convolutions_count_for_many_positions(self):
        conv, linear = nn.Conv2d(4, 32, 8), nn.Linear(4 * 8 * 8, 32)
        assert largest_layer_macs(conv, 32) == 64 * largest_layer_macs(linear, 32)
        assert largest_layer_macs(nn.ReLU(), 32) == 0

    def test_work_grows_with_the_batch_and_never_below_one(self):
        assert [threads_for_work(n << 23, 6) for n in (0, 1, 3, 4, 5, 9)] == [1, 1, 1, 4, 5, 6]
        assert threads_for_work(1 << 40, 1) == 1
        with pytest.raises(ValueError, match="batch_size"):
            fit_num_threads(mlp(1, 1), 0)

    def test_the_quota_of_a_container_is_read(self):
        assert quota_cores("max 100000\n") is None
        assert quota_cores("250000 100000\n") == 2
        assert quota_cores("50000 100000") == 1

    @staticmethod
    def _child(code, **extra):
        env = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        head = "import torch; torch.set_num_threads(4)\nimport gc\nfrom torch import nn\n"
        head += "from ding.torch_utils.threads import apply_fitted_num_threads as fit, usable_cores\n"
        head += "small, large = nn.Linear(4, 4), nn.Linear(2048, 2048)\n"
        done = subprocess.run(
            [sys.executable, "-c", head + code], env={**env, **extra}, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    def test_applies_the_most_that_a_living_model_needs(self):
        code = "print(usable_cores(), fit(small, 8), fit(large, 64), fit(small, 8)); del large; gc.collect()\n"
        cores, *counts = self._child(code + "print(fit(small, 8))")
        assert 1 <= int(cores) <= 4
        assert counts == ["1", cores, cores, "1"]

    def test_a_choice_of_the_user_wins(self):
        code = "fit(small, 8); torch.set_num_threads(3); print(fit(small, 8), torch.get_num_threads())"
        assert self._child(code) == ["3", "3"]
        assert self._child("print(fit(small, 8))", MKL_NUM_THREADS="4") == ["4"]


def test_fold_and_unfold_are_inverse():
    x = torch.arange(24.0).view(2, 3, 4)
    folded, dims = fold_batch(x)
    assert folded.shape == (6, 4)
    torch.testing.assert_close(unfold_batch(folded, dims), x)
    flat, dims = fold_batch(x, nonbatch_ndims=0)
    assert flat.shape == (24,)
    torch.testing.assert_close(unfold_batch(flat, dims), x)
    with pytest.raises(ValueError, match="nonbatch_ndims"):
        fold_batch(x, 4)
    repeated = unsqueeze_repeat(x, 5, 1)
    assert repeated.shape == (2, 5, 3, 4)
    assert unsqueeze_repeat(x, 2, -1).shape == (2, 3, 4, 2)


@pytest.mark.parametrize("kwargs", [{}, {"bias": True}, {"ddof": 2}])
def test_cov_is_numpy_cov(kwargs):
    x = np.random.default_rng(0).normal(size=(7, 3))
    np.testing.assert_allclose(cov(torch.as_tensor(x), **kwargs).numpy(), np.cov(x, rowvar=False, **kwargs))
    weights = np.arange(1.0, 8.0)
    ours = cov(torch.as_tensor(x.T.copy()), rowvar=True, aweights=torch.as_tensor(weights), **kwargs)
    np.testing.assert_allclose(ours.numpy(), np.cov(x.T, aweights=weights, **kwargs))


def test_distances():
    a, b = torch.tensor([1, 2, 3, 4]), torch.tensor([1, 3, 4, 5])
    assert levenshtein_distance(a, b).tolist() == [2]
    assert levenshtein_distance(a, b[:0]).tolist() == [4]
    extra = torch.tensor([[0.0], [0.0], [0.5], [0.0]])
    with_extra = levenshtein_distance(a, a, extra, extra + 0.25, lambda x, y: (y - x).item())
    assert with_extra.tolist() == [1.0]
    # Ids that match are paired whatever that costs.
    paired = levenshtein_distance(a[:1], a[:1], extra[:1], extra[:1], lambda x, y: 5.0)
    assert paired.tolist() == [5.0]
    pred, target = torch.tensor([[1, 0, 1], [0, 0, 0]]), torch.tensor([[1, 1, 0], [0, 0, 0]])
    assert hamming_distance(pred, target).tolist() == [2, 0]
    assert hamming_distance(pred, target, torch.tensor([1.0, 2.0, 4.0])).tolist() == [6, 0]
    with pytest.raises(ValueError, match="only 0 and 1"):
        hamming_distance(pred * 2, target)


@pytest.mark.parametrize("kind", [NonegativeParameter, TanhParameter])
def test_set_data_takes_the_new_shape(kind):
    value = kind(torch.tensor([0.1, 0.2]))
    parameter = next(value.parameters())
    value.set_data(torch.tensor([[0.3, 0.4, 0.5]]))
    torch.testing.assert_close(value(), torch.tensor([[0.3, 0.4, 0.5]]))
    assert next(value.parameters()) is parameter
    assert kind()().shape == (1,)


def test_parameters_stay_in_range():
    positive = NonegativeParameter(torch.tensor([0.0, 2.0]))
    torch.testing.assert_close(positive(), torch.tensor([1e-8, 2.0]))
    positive().sum().backward()
    assert positive.log_data.grad[1].item() == pytest.approx(2.0)
    before = positive.log_data
    positive.set_data(torch.tensor([3.0, 4.0]))
    assert positive.log_data is before
    torch.testing.assert_close(positive.data, torch.tensor([3.0, 4.0]))
    bounded = TanhParameter(torch.tensor([0.5]))
    torch.testing.assert_close(bounded(), torch.tensor([0.5]))
    with pytest.raises(ValueError, match=r"\(-1, 1\)"):
        bounded.set_data(torch.tensor([1.0]))


def test_both_categorical_distributions_agree():
    logits = torch.sin(torch.arange(12.0)).view(4, 3)
    ours, wrapped = CategoricalPd(logits), CategoricalPdPytorch(torch.softmax(logits, -1))
    labels = torch.tensor([0, 1, 2, 0])
    for reduction in ("mean", "none", None):
        torch.testing.assert_close(ours.neglogp(labels, reduction), wrapped.neglogp(labels, reduction))
        torch.testing.assert_close(ours.entropy(reduction), wrapped.entropy(reduction))
    assert ours.mode().tolist() == wrapped.mode().tolist() == logits.argmax(-1).tolist()
    peaked = torch.full((2, 3), -50.0).index_fill(1, torch.tensor([1]), 50.0)
    for pd in (ours, wrapped):
        pd.update_logits(peaked)
        assert pd.sample().tolist() == [1, 1]
    assert ours.noise_mode().tolist() == [1, 1]
    with pytest.raises(ValueError, match="reduction='sum'"):
        ours.entropy("sum")
    with pytest.raises(RuntimeError, match="update_logits"):
        CategoricalPd().mode()
    with pytest.raises(RuntimeError, match="CategoricalPd has no parameters"):
        CategoricalPd().noise_mode()


def test_a_categorical_distribution_shows_its_logits():
    logits = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]])
    ours = CategoricalPd(logits)
    for method in (ours.mode, ours.sample):
        assert method(viz=True)[1]["logits"].tolist() == logits.tolist()
    torch.manual_seed(0)
    result, shown = ours.noise_mode(viz=True)
    assert result.tolist() == [1, 2]
    assert shown["noise"][0] == pytest.approx([0.3557, 1.3330, -0.8858], abs=1e-4)  # as DI-engine draws it
    np.testing.assert_allclose(shown["noise_logits"], shown["noise"] + logits.numpy())
    assert CategoricalPdPytorch(torch.softmax(logits, -1)).entropy().shape == (2,)
    for method in (Pd().noise_mode, Pd().mode):
        with pytest.raises(NotImplementedError):
            method()


def test_cosine_schedule():
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler = cos_lr_scheduler(optimizer, 0.1, warmup_epochs=2, lr_decay_epochs=6, min_lr=0.02)
    rates = []
    for _ in range(9):
        rates.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    middle = [0.02 + 0.04 * (1 + math.cos(math.pi * i / 4)) for i in range(4)]
    assert rates == pytest.approx([0, 0.05, *middle, 0.02, 0.02, 0.02])


def test_is_differentiable_names_the_parameter():
    model = mlp(2, 2, 1)
    with pytest.raises(AssertionError, match=r"0\.0\.weight receives no gradient"):
        is_differentiable(model[1](torch.ones(1, 2)).sum(), model)
    model = mlp(2, 2, 1)
    is_differentiable(model(torch.ones(1, 2)).sum(), model)
    with pytest.raises(AssertionError, match="before backward"):
        is_differentiable(model(torch.ones(1, 2)).sum(), model)


def test_data_parallel_shows_the_module():
    class Net(nn.Linear):
        def describe(self):
            return "net"

    wrapped = DataParallel(Net(2, 1))
    assert wrapped.describe() == "net"
    assert [p.shape for p in wrapped.parameters()] == [(1, 2), (1,)]
    with pytest.raises(AttributeError, match="nothing"):
        _ = wrapped.nothing


LOGITS = torch.sin(torch.arange(12.0)).view(4, 3)
LABELS = torch.tensor([0, 2, 1, 1])


def test_label_smoothing_gives_each_class_the_mass_of_the_original_api():
    target = torch.tensor([[0.9, 0.1, 0.1], [0.1, 0.1, 0.9], [0.1, 0.9, 0.1], [0.1, 0.9, 0.1]])
    expected = -(target * LOGITS.log_softmax(1)).sum(1).mean()
    torch.testing.assert_close(LabelSmoothCELoss(0.2)(LOGITS, LABELS), expected)


def test_focal_loss():
    torch.testing.assert_close(SoftFocalLoss(gamma=0)(LOGITS, LABELS), nn.functional.cross_entropy(LOGITS, LABELS))
    p = torch.softmax(LOGITS, -1)[torch.arange(4), LABELS]
    torch.testing.assert_close(SoftFocalLoss(reduce=False)(LOGITS, LABELS), -((1 - p) ** 2) * p.log())


def test_build_ce_criterion():
    assert isinstance(build_ce_criterion({"type": "cross_entropy"}), nn.CrossEntropyLoss)
    assert build_ce_criterion({"type": "label_smooth_ce", "kwargs": {"smooth_ratio": 0.1}}).ratio == 0.1
    assert isinstance(build_ce_criterion({"type": "soft_focal_loss"}), SoftFocalLoss)
    with pytest.raises(ValueError, match="Did you mean 'cross_entropy'"):
        build_ce_criterion({"type": "crossentropy"})


def test_assignment_is_the_cheapest_permutation():
    rng = np.random.default_rng(0)
    for size in (1, 2, 5):
        cost = rng.normal(size=(size, size))
        columns = min_cost_assignment(cost.tolist())
        best = min(sum(cost[i, j] for i, j in enumerate(p)) for p in permutations(range(size)))
        assert sum(cost[i, j] for i, j in enumerate(columns)) == pytest.approx(best)


def test_multi_logits_loss_does_not_depend_on_the_order_of_labels():
    logits = LOGITS.clone().requires_grad_()
    loss = MultiLogitsLoss("cross_entropy")(logits, LABELS)
    torch.testing.assert_close(loss, MultiLogitsLoss()(logits, LABELS.flip(0)))
    best = min(nn.functional.cross_entropy(logits, LABELS[list(p)]).item() for p in permutations(range(4)))
    assert loss.item() == pytest.approx(best)
    loss.backward()
    assert logits.grad.abs().sum() > 0
    assert isinstance(MultiLogitsLoss("label_smooth_ce").criterion, LabelSmoothCELoss)


def test_contrast_of_two_rows_by_hand():
    loss = ContrastiveLoss(2, 2, encode_shape=3)
    x, y = torch.randn(2, 2), torch.randn(2, 2)
    with torch.no_grad():
        scores = loss.y_encoder(y) @ loss.x_encoder(x).T
        rows = [[scores[0, 0], -10, scores[0, 1]], [scores[1, 1], scores[1, 0], -10]]
        expected = -torch.tensor(rows).log_softmax(1)[:, 0].mean()
        torch.testing.assert_close(loss(x, y), expected)


@pytest.mark.parametrize(("y_size", "heads"), [(5, (1, 1)), ([3, 8, 8], (2, 3))])
def test_contrastive_loss_learns_which_rows_belong_together(y_size, heads):
    torch.manual_seed(0)
    x = torch.randn(6, 4)
    y = torch.randn(6, *([y_size] if isinstance(y_size, int) else y_size))
    loss = ContrastiveLoss([4], y_size, heads=heads, encode_shape=8, temperature=0.2)
    optimizer = torch.optim.Adam(loss.parameters(), lr=0.01)
    first = loss(x, y)
    for _ in range(30):
        optimizer.zero_grad()
        loss(x, y).backward()
        optimizer.step()
    assert loss(x, y).item() < 0.6 * first.item()
    with pytest.raises(ValueError, match="infoNCE"):
        ContrastiveLoss(2, 2, loss_type="nce")


def test_checkpoint_round_trip(tmp_path):
    path = str(tmp_path / "sub" / "a.pth.tar")
    model = mlp(2, 2)
    optimizer = torch_utils.Adam(model.parameters(), lr=0.1)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    helper = build_checkpoint_helper({})
    helper.save(path, model, optimizer, last_iter=CountVar(7), prefix_op="add", prefix="module.")
    assert [p.name for p in (tmp_path / "sub").iterdir()] == ["a.pth.tar"]
    other, counter = mlp(2, 2), CountVar(0)
    kept = other[0].bias.detach().clone()
    other_optimizer = torch_utils.Adam(other.parameters(), lr=0.5)
    helper.load(
        path,
        other,
        other_optimizer,
        last_iter=counter,
        prefix_op="remove",
        prefix="module.",
        state_dict_mask=["0.bias"],
    )
    torch.testing.assert_close(other[0].weight, model[0].weight)
    torch.testing.assert_close(other[0].bias.detach(), kept)
    assert counter.val == 7
    assert other_optimizer.param_groups[0]["lr"] == 0.1
    helper.load(path, other, last_epoch=counter, prefix_op="remove", prefix="module.")
    assert counter.val == 7, "what the file lacks stays as it is"


@pytest.mark.parametrize(
    ("sizes", "kwargs", "loaded"),
    [
        ((2, 2, 1), {}, {"0.weight", "0.bias", "1.weight", "1.bias"}),
        ((2, 2, 1), {"state_dict_mask": ["0"]}, {"1.weight", "1.bias"}),
        ((2, 2, 1, 1), {"state_dict_mask": ["0"]}, {"1.weight", "1.bias"}),
        ((2, 2, 1, 1), {"strict": False}, {"0.weight", "0.bias", "1.weight", "1.bias"}),
        ((3, 2, 1), {"strict": False}, {"0.bias", "1.weight", "1.bias"}),
        ((3, 2, 1), {"state_dict_mask": ["0"]}, {"1.weight", "1.bias"}),
        ((2, 2), {"state_dict_mask": ["0"]}, set()),
        ((2, 2, 1, 1), {}, None),
    ],
)
def test_a_mask_or_strict_false_loads_what_fits(tmp_path, sizes, kwargs, loaded):
    source, target = mlp(2, 2, 1), mlp(*sizes)
    for parameter in source.parameters():
        nn.init.ones_(parameter)
    for parameter in target.parameters():
        nn.init.zeros_(parameter)
    helper, path = build_checkpoint_helper(), str(tmp_path / "a.pth")
    helper.save(path, source)
    if loaded is None:
        with pytest.raises(RuntimeError, match="Missing key"):
            helper.load(path, target, **kwargs)
        return
    helper.load(path, target, **kwargs)
    assert {name for name, parameter in target.named_parameters() if parameter.any()} == loaded


class Saver:
    def __init__(self):
        self.saved = []

    def save_checkpoint(self, name):
        self.saved.append(name)

    @auto_checkpoint
    def run(self, action):
        return action()

    @auto_checkpoint(reraise=True)
    def run_strictly(self, action):
        return action()


def test_auto_checkpoint_saves_and_ends_as_the_reference():
    saver = Saver()
    assert saver.run(lambda: 3) == 3
    assert saver.run(lambda: 1 / 0) is None
    with pytest.raises(SystemExit) as stop:
        saver.run(lambda: signal.raise_signal(signal.SIGTERM))
    assert stop.value.code == 1
    assert saver.saved == ["ckpt_exception.pth.tar", "ckpt_interrupt.pth.tar"]


def test_auto_checkpoint_saves_and_raises_again():
    saver = Saver()
    before = signal.getsignal(signal.SIGTERM)
    assert saver.run_strictly(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        saver.run_strictly(lambda: 1 / 0)
    with pytest.raises(SystemExit) as stop:
        saver.run_strictly(lambda: signal.raise_signal(signal.SIGTERM))
    assert stop.value.code == 128 + signal.SIGTERM
    assert saver.saved == ["ckpt_exception.pth.tar", "ckpt_interrupt.pth.tar"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_everything_exported_exists():
    assert sorted(set(torch_utils.__all__)) == sorted(torch_utils.__all__)
    assert [name for name in torch_utils.__all__ if not hasattr(torch_utils, name)] == []
