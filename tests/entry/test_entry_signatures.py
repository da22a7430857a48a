"""The pipelines' signatures, most of which are written once for several of them."""

import inspect
import pickle
import typing

import pytest

import ding.entry

LEARNING = "input_cfg seed env_setting model max_train_iter max_env_step view strict callbacks"
EXPERT = "input_cfg expert_cfg seed env_setting model expert_model max_train_iter max_env_step view strict callbacks"
OFFLINE = "input_cfg seed env_setting model max_train_iter view strict callbacks"
KINDS = {
    LEARNING: "onpolicy onpolicy_ppg plr reward_model_offpolicy reward_model_onpolicy trex trex_onpolicy ngu",
    EXPERT: "dqfd r2d3 sqil bco",
    OFFLINE: "offline dt",
}
PIPELINES = [(f"serial_pipeline_{name}", names) for names, kind in KINDS.items() for name in kind.split()]


@pytest.mark.parametrize(("name", "names"), PIPELINES)
def test_each_pipeline_shows_its_own_signature(name, names) -> None:
    pipeline = getattr(ding.entry, name)
    signature, plain = inspect.signature(pipeline), inspect.signature(ding.entry.serial_pipeline, eval_str=True)
    assert list(signature.parameters) == names.split()
    for parameter in signature.parameters.values():
        if parameter.name in plain.parameters:
            assert parameter == plain.parameters[parameter.name]
    assert signature.return_annotation == typing.get_type_hints(pipeline)["return"]
    assert pickle.loads(pickle.dumps(pipeline)) is pipeline  # noqa: S301
    assert "RunArguments" not in str(signature)


def test_a_wrong_argument_is_one_of_the_pipeline() -> None:
    pipeline = ding.entry.serial_pipeline_onpolicy
    with pytest.raises(TypeError, match=r"^serial_pipeline_onpolicy\(\) missing a required argument: 'input_cfg'$"):
        pipeline()
    with pytest.raises(TypeError, match=r"^serial_pipeline_onpolicy\(\) got an unexpected keyword argument 'sed'$"):
        pipeline("config.py", sed=1)
    with pytest.raises(TypeError, match=r"^serial_pipeline_onpolicy\(\) too many positional arguments$"):
        pipeline(*range(7))
