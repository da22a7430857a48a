"""Target networks, hidden states, and what feeds a transformer."""

import pytest
import torch
from torch import nn

from ding.model import DQN, DRQN, model_wrap
from ding.torch_utils.network.gtrxl import GTrXL


class Norm(nn.Module):
    """A parameter, float and integer buffers, and one module under two names."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.alias = self.layer
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x):
        return {"logit": self.norm(self.layer(x))}


def filled(value):
    model = Norm()
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.fill_(value)
    return model


def target(model, **kwargs):
    update_type = "assign" if "freq" in kwargs else "momentum"
    return model_wrap(model, "target", update_type=update_type, update_kwargs=kwargs)


class TestTarget:
    def test_assign_copies_at_every_freq_th_call(self):
        model, wrapped = filled(3.0), target(filled(1.0), freq=3)
        seen = []
        for value in range(1, 8):
            nn.init.constant_(model.layer.weight, value)
            wrapped.update(model.state_dict())
            seen.append(wrapped.layer.weight[0, 0].item())
        assert seen == [1.0, 1.0, 3.0, 3.0, 3.0, 6.0, 6.0]
        assert wrapped.norm.running_mean.tolist() == [3.0, 3.0]
        assert wrapped.norm.num_batches_tracked.item() == 3

    def test_momentum_moves_parameters_once_and_copies_buffers(self):
        wrapped = target(filled(1.0), theta=0.25)
        wrapped.update(filled(5.0).state_dict())
        assert all(torch.equal(p, torch.full_like(p, 2.0)) for p in wrapped.parameters())
        assert wrapped.norm.running_mean.tolist() == [5.0, 5.0]
        assert wrapped.norm.num_batches_tracked.item() == 5
        wrapped.update(filled(5.0).state_dict())
        assert torch.equal(wrapped.layer.weight, torch.full((2, 2), 2.75))

    def test_momentum_formula(self):
        torch.manual_seed(0)
        own, other = DQN(4, 2), DQN(4, 2)
        expected = [0.995 * p + 0.005 * q for p, q in zip(own.parameters(), other.parameters())]
        target(own, theta=0.005).update(other.state_dict())
        assert all(torch.allclose(p, q, atol=1e-7) for p, q in zip(own.parameters(), expected))

    @pytest.mark.parametrize("options", [{"freq": 2}, {"theta": 0.25}])
    def test_a_network_in_place_of_its_state_gives_the_same(self, options):
        source, twins = filled(5.0), [target(filled(1.0), **options) for _ in range(2)]
        for step in range(6):
            if step == 2:
                source.layer.weight = nn.Parameter(torch.full((2, 2), 9.0))
                source.alias = source.layer
            if step == 3:
                source.norm.running_mean = torch.full((2,), 3.0)
            twins[0].update(model_wrap(source, "argmax_sample") if step % 2 else source)
            twins[1].update(source.state_dict())
            for a, b in zip(twins[0].state_dict().values(), twins[1].state_dict().values()):
                assert torch.equal(a, b)
        assert twins[0].norm.running_mean.tolist() == [3.0, 3.0]

    def test_the_state_of_a_network_is_read_when_it_is_copied_only(self):
        source, reads = filled(5.0), []
        source.register_state_dict_pre_hook(lambda *args: reads.append(1))
        wrapped = target(filled(1.0), freq=3)
        for _ in range(7):
            wrapped.update(source)
        assert len(reads) == 2

    def test_storage_and_gradients_stay_apart(self):
        model, wrapped = filled(3.0), target(filled(1.0), freq=1)
        weight = wrapped.layer.weight
        wrapped.update(model.state_dict())
        nn.init.constant_(model.layer.weight, 9.0)
        assert wrapped.layer.weight is weight
        assert weight[0, 0].item() == 3.0
        assert weight.grad_fn is None
        assert weight.requires_grad

    def test_direct_copies_and_restarts_the_count(self):
        wrapped = target(filled(1.0), freq=2)
        wrapped.update(filled(2.0).state_dict())
        wrapped.update(filled(4.0).state_dict(), direct=True)
        assert wrapped.layer.weight[0, 0].item() == 4.0
        wrapped.update(filled(6.0).state_dict())
        assert wrapped.layer.weight[0, 0].item() == 4.0
        wrapped.update(filled(7.0).state_dict())
        assert wrapped.layer.weight[0, 0].item() == 7.0

    def test_reset_sets_the_count(self):
        wrapped = target(filled(1.0), freq=5)
        wrapped.reset(target_update_count=4)
        wrapped.update(filled(2.0).state_dict())
        assert wrapped.layer.weight[0, 0].item() == 2.0
        wrapped.reset()
        wrapped.update(filled(3.0).state_dict())
        assert wrapped.layer.weight[0, 0].item() == 2.0

    @pytest.mark.parametrize("options", [{"freq": 1}, {"theta": 0.5}])
    def test_other_layouts_are_told(self, options):
        wrapped = target(DQN(4, 2), **options)
        with pytest.raises(RuntimeError, match=r"head\.Q"):
            wrapped.update(DQN(4, 2, dueling=False).state_dict())
        with pytest.raises(RuntimeError, match="size mismatch"):
            wrapped.update(DQN(4, 3).state_dict())

    def test_bad_options(self):
        with pytest.raises(ValueError, match="'copy'"):
            model_wrap(DQN(4, 2), "target", update_type="copy", update_kwargs={})
        with pytest.raises(ValueError, match="'freq'"):
            model_wrap(DQN(4, 2), "target", update_type="assign", update_kwargs={"theta": 0.1})
        with pytest.raises(ValueError, match="0"):
            target(DQN(4, 2), freq=0)
        with pytest.raises(ValueError, match=r"1\.5"):
            target(DQN(4, 2), theta=1.5)


class Counting(nn.Module):
    """Its state counts the steps of each row; ``seen`` are the states of the last call."""

    def forward(self, data, scale=1):
        self.seen = data["prev_state"]
        states = [0 if state is None else state["n"] for state in data["prev_state"]]
        next_state = [{"n": torch.tensor([state + 1.0])} for state in states]
        return {"logit": scale * data["obs"], "next_state": next_state}


class TestHiddenState:
    def counts(self, wrapped):
        wrapped.forward({"obs": torch.zeros(3, 1)}, valid_id=[])  # keeps none of the new states
        return [None if state is None else int(state["n"]) for state in wrapped.seen]

    def test_states_follow_their_rows(self):
        wrapped = model_wrap(Counting(), "hidden_state", state_num=3)
        data = {"obs": torch.zeros(3, 1)}
        output = wrapped.forward(data)
        assert set(output) == {"logit"}
        assert set(data) == {"obs"}
        assert self.counts(wrapped) == [1, 1, 1]
        wrapped.forward({"obs": torch.ones(2, 1)}, data_id=[2, 0], scale=3)
        assert self.counts(wrapped) == [2, 1, 2]
        wrapped.forward(data, valid_id=[1])
        assert self.counts(wrapped) == [2, 2, 2]

    def test_reset(self):
        wrapped = model_wrap(Counting(), "hidden_state", state_num=3)
        wrapped.forward({"obs": torch.zeros(3, 1)})
        wrapped.reset(data_id=[1])
        assert self.counts(wrapped) == [1, None, 1]
        wrapped.reset(state=[{"n": torch.tensor(7.0)}], data_id=[0])
        assert self.counts(wrapped) == [7, None, 1]
        wrapped.reset()
        assert self.counts(wrapped) == [None] * 3
        with pytest.raises(AssertionError, match="1 entries for 2 ids"):
            wrapped.reset(state=[None], data_id=[0, 1])

    def test_saved_states_are_detached_and_never_none(self):
        model = DRQN(4, 2, [16, 8])
        wrapped = model_wrap(model, "hidden_state", state_num=2, save_prev_state=True)
        first = wrapped.forward({"obs": torch.randn(2, 4)}, inference=True)
        assert [state["h"].tolist() for state in first["prev_state"]] == [[[[0.0] * 8]]] * 2
        second = wrapped.forward({"obs": torch.randn(2, 4)}, inference=True)
        assert second["prev_state"][1]["h"].any()
        assert not second["prev_state"][1]["h"].requires_grad

    def test_init_fn(self):
        wrapped = model_wrap(Counting(), "hidden_state", state_num=2, init_fn=lambda: {"n": torch.tensor(10.0)})
        wrapped.forward({"obs": torch.zeros(2, 1)})
        assert self.counts(wrapped) == [11, 11]

    def test_errors(self):
        wrapped = model_wrap(Counting(), "hidden_state", state_num=2)
        with pytest.raises(KeyError, match=r"\[5\]"):
            wrapped.forward({"obs": torch.zeros(1, 1)}, data_id=[5])

        class Short(nn.Module):
            def forward(self, data):
                return {"next_state": [None]}

        with pytest.raises(AssertionError, match="1 entries for 2 ids"):
            model_wrap(Short(), "hidden_state", state_num=2).forward({"obs": None})

    def test_under_a_sampling_wrapper(self):
        wrapped = model_wrap(DRQN(4, 2, [16, 8]), "hidden_state", state_num=2, save_prev_state=True)
        wrapped = model_wrap(wrapped, "eps_greedy_sample")
        output = wrapped.forward({"obs": torch.randn(1, 4)}, data_id=[1], inference=True, eps=0.2)
        assert output["action"].shape == (1,)
        assert len(output["prev_state"]) == 1
        wrapped.reset(data_id=[1])


class Twice(nn.Module):
    """Returns twice the input, and the sum over time as its memory."""

    def forward(self, x):
        return {"logit": 2 * x, "memory": x.sum(dim=0), "note": len(x)}


def test_transformer_input_feeds_a_window():
    # The numbers of DI-engine.
    wrapped = model_wrap(Twice(), "transformer_input", seq_len=3)
    with pytest.raises(AssertionError, match="before the first use"):
        wrapped.reset(data_id=[0])
    windows = []
    for value in range(1, 5):
        output = wrapped.forward(torch.full((2, 2), float(value)))
        assert output["logit"].tolist() == [[2 * value] * 2] * 2
        windows.append(output["input_seq"])
    assert [window[:, 0, 0].tolist() for window in windows] == [[1, 0, 0], [1, 2, 0], [1, 2, 3], [2, 3, 4]]
    assert wrapped.memory_idx == [3, 3]
    output = wrapped.forward(torch.full((1, 2), 9.0), data_id=[1])
    assert output["logit"].tolist() == [[18, 18]]
    assert wrapped.obs_memory[:, :, 0].tolist() == [[2, 3], [3, 4], [4, 9]]
    assert wrapped.forward(torch.ones(2, 2), only_last_logit=False)["logit"].shape == (3, 2, 2)
    wrapped.reset(data_id=[0])
    assert wrapped.memory_idx == [0, 3]
    assert wrapped.obs_memory[:, 0].eq(0).all()
    with pytest.raises(ValueError, match=r"2 observations for the environments \[0\]"):
        wrapped.forward(torch.ones(2, 2), data_id=[0])
    wrapped.reset(input_obs=torch.ones(3, 4, 2))
    assert wrapped.memory_idx == [0] * 4
    wrapped.reset()
    assert wrapped.obs_memory is None


def test_transformer_segment_runs_pieces():
    wrapped = model_wrap(Twice(), "transformer_segment", seq_len=3)
    output = wrapped.forward(torch.arange(5.0).reshape(5, 1, 1))
    assert output["logit"].flatten().tolist() == [0, 2, 4, 6, 8, 0]
    assert output["memory"].tolist() == [[3], [7]]
    assert output["note"] == 3


def test_transformer_memory_belongs_to_the_wrapper(capsys):
    sizes = dict(input_dim=4, head_dim=2, embedding_dim=4, head_num=1, mlp_num=1, layer_num=1, memory_len=3)
    network = GTrXL(**sizes, use_embedding_layer=False)
    wrapped = model_wrap(network, "transformer_memory", batch_size=2)
    assert wrapped.memory.shape == (2, 3, 2, 4)
    wrapped.forward(torch.ones(1, 2, 4))
    wrapped.show_memory_occupancy()
    assert capsys.readouterr().out == "Layer 0\n0 0 1\n0 0 1\n"
    kept = wrapped.memory
    network.reset_memory(batch_size=5)
    network(torch.ones(1, 5, 4))
    wrapped.forward(torch.ones(1, 2, 4))
    torch.testing.assert_close(wrapped.memory[:, 1], kept[:, 2])
    wrapped.memory = torch.ones(2, 3, 2, 4)
    wrapped.reset(data_id=[1])
    assert wrapped.memory[0, 0, :, 0].tolist() == [1, 0]
    wrapped.reset()
    assert wrapped.memory.eq(0).all()
