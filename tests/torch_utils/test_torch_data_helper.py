"""Conversions and tree operations of ``ding.torch_utils.data_helper``."""

from collections import namedtuple

import numpy as np
import pytest
import torch

from ding.torch_utils import (
    CudaFetcher,
    build_log_buffer,
    get_null_data,
    get_tensor_data,
    same_shape,
    squeeze,
    tensor_to_list,
    to_device,
    to_dtype,
    to_item,
    to_list,
    to_ndarray,
    to_tensor,
    unsqueeze,
    zeros_like,
)

Step = namedtuple("Step", ["obs", "reward"])


def test_to_tensor_dtypes_and_memory():
    wide = np.ones(3)
    assert to_tensor(wide).dtype == torch.float32
    assert to_tensor(wide, dtype=torch.float64).dtype == torch.float64
    shared = np.zeros(3, dtype=np.float32)
    tensor = to_tensor(shared)
    shared[1] = 7
    assert tensor.tolist() == [0, 7, 0]
    assert to_tensor(np.arange(2, dtype=np.int16)).dtype == torch.int16


def test_to_tensor_scalars_lists_and_containers():
    assert to_tensor(True) is True
    assert to_tensor("a") == "a"
    assert to_tensor(None) is None
    assert to_tensor([]) == []
    assert to_tensor(3).shape == ()
    assert to_tensor(3, transform_scalar=False) == 3
    assert not isinstance(to_tensor(3, transform_scalar=False), torch.Tensor)
    assert to_tensor([1, 2]).dtype == torch.int64
    assert to_tensor((1.0, 2.0)).dtype == torch.float32
    step = to_tensor(Step(obs=1.0, reward=[1, 2]))
    assert isinstance(step, Step)
    assert step.obs.shape == ()
    assert isinstance(to_tensor((np.zeros(1), "x")), tuple)
    kept = np.zeros(1)
    assert to_tensor({"a": kept, "b": kept}, ignore_keys=["b"])["b"] is kept


def test_to_tensor_copies_what_torch_cannot_view():
    frozen = np.arange(3.0, dtype=np.float32)
    frozen.flags.writeable = False
    assert to_tensor(frozen).tolist() == [0, 1, 2]
    assert to_tensor(np.arange(3, dtype=np.float32)[::-1]).tolist() == [2, 1, 0]


def test_unknown_types_are_named():
    for function in (to_tensor, to_ndarray, to_list, tensor_to_list, to_item):
        with pytest.raises(TypeError, match=rf"{function.__name__} cannot handle builtins\.object"):
            function({"a": [object()]})
    with pytest.raises(TypeError, match="to_device"):
        to_device(object(), "cpu")


def test_to_ndarray_is_the_inverse():
    tensor = torch.arange(3.0)
    array = to_ndarray({"a": [tensor, True, "s", None], "b": [1, 2], "c": 1.5, "d": []})
    tensor[0] = 9
    assert array["a"][0].tolist() == [9, 1, 2]
    assert array["a"][1:] == [True, "s", None]
    assert array["b"].tolist() == [1, 2]
    assert array["c"].shape == ()
    assert array["d"] == []
    assert to_ndarray(torch.ones(2, requires_grad=True), dtype=np.float64).dtype == np.float64


def test_to_device_keeps_container_types_and_moves_distributions():
    normal = torch.distributions.Independent(torch.distributions.Normal(torch.zeros(2), torch.ones(2)), 1)
    marker = torch.zeros(1)
    moved = to_device({"p": (torch.ones(1), 3, "x"), "d": normal, "keep": marker, "a": np.ones(1)}, "meta", ["keep"])
    assert isinstance(moved["p"], tuple)
    assert moved["p"][0].device.type == "meta"
    assert moved["p"][1:] == (3, "x")
    assert moved["d"].base_dist.loc.device.type == "meta"
    assert normal.base_dist.loc.device.type == "cpu"
    assert moved["keep"] is marker
    assert isinstance(moved["a"], np.ndarray)
    assert to_device(torch.nn.Linear(1, 1), "meta").weight.device.type == "meta"


def test_to_dtype_to_list_and_tensor_to_list():
    assert to_dtype({"a": [torch.ones(1)]}, torch.int32)["a"][0].dtype == torch.int32
    assert to_list({"a": np.array([[1, 2]]), "b": (torch.tensor(1.5), None)}) == {"a": [[1, 2]], "b": (1.5, None)}
    assert tensor_to_list([torch.tensor([1, 2]), 3, "x"]) == [[1, 2], 3, "x"]


def test_to_item_drops_what_is_not_a_scalar():
    data = {"a": torch.tensor([1.5]), "b": torch.zeros(2), "c": {"d": np.array([2])}}
    assert to_item(data) == {"a": 1.5, "c": {"d": 2}}
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        to_item(data, ignore_error=False)


def test_tree_operations_honour_dim_inside_containers():
    tree = {"a": [torch.zeros(2, 1)]}
    assert unsqueeze(tree, 1)["a"][0].shape == (2, 1, 1)
    assert squeeze(tree, 1)["a"][0].shape == (2,)
    assert zeros_like({"a": (torch.ones(2),)})["a"][0].tolist() == [0, 0]
    source = torch.ones(1, requires_grad=True)
    clone = get_tensor_data([source, None])
    assert not clone[0].requires_grad
    assert clone[0].data_ptr() != source.data_ptr()
    assert same_shape([torch.zeros(2), torch.ones(2)])
    assert not same_shape([torch.zeros(2), torch.ones(3)])


def test_null_data_is_a_copy():
    template = {"obs": torch.ones(2), "reward": torch.ones(1), "done": False}
    first, second = get_null_data(template, 2)
    assert first["null"] is True
    assert first["done"] is True
    assert first["reward"].tolist() == [0]
    assert first["obs"].data_ptr() != second["obs"].data_ptr()
    assert template == {"obs": template["obs"], "reward": template["reward"], "done": False}


def test_log_buffer_stores_plain_values():
    buffer = build_log_buffer()
    buffer["a"] = torch.tensor(1.5)
    buffer.update({"b": torch.tensor([1, 2])}, c=3)
    assert buffer == {"a": 1.5, "b": [1, 2], "c": 3}
    assert buffer.setdefault("d", torch.tensor(2.0)) == 2.0


def test_fetcher_yields_in_order_and_ends():
    fetcher = CudaFetcher(({"x": torch.full((1,), float(i))} for i in range(6)), "cpu", queue_size=2)
    with pytest.raises(RuntimeError, match="call run"):
        next(fetcher)
    fetcher.run()
    assert [item["x"].item() for item in fetcher] == [0, 1, 2, 3, 4, 5]
    fetcher.close()


def test_fetcher_raises_the_error_of_its_source():
    def source():
        yield torch.zeros(1)
        raise OSError("disk gone")

    fetcher = CudaFetcher(source(), "cpu")
    fetcher.run()
    next(fetcher)
    with pytest.raises(OSError, match="disk gone"):
        next(fetcher)
    fetcher.close()


def test_fetcher_closes_while_the_queue_is_full():
    fetcher = CudaFetcher((torch.zeros(1) for _ in iter(int, 1)), "cpu", queue_size=1)
    fetcher.run()
    next(fetcher)
    fetcher.close()
    fetcher.close()
    with pytest.raises(RuntimeError, match="not running"):
        next(fetcher)
