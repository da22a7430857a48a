"""Hypothesis strategies of generated envs. Only this module requires hypothesis."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from gymnasium import spaces

from ding.envs.testing.generated import ENDINGS, INFO_FORMS, OBS_FORMS, REWARD_FORMS, AnySpace, GeneratedEnvSpec
from ding.utils import require_extra

Draw: TypeAlias = Callable[..., Any]
if TYPE_CHECKING:
    from hypothesis import strategies as st
else:
    st = require_extra("hypothesis.strategies", "test")

Spaces: TypeAlias = "st.SearchStrategy[AnySpace]"

SHAPES = ((), (1,), (2,), (3,), (1, 2), (2, 2), (1, 1, 2))
FLOATS = (np.float32, np.float64, np.float16)
INTS = (np.uint8, np.int8, np.int32, np.int64, np.uint16)
KEYS = ("a", "b", "obs", "action_mask")


def _bounds(dtype: "type[np.generic]", bounded: bool) -> tuple[Any, Any]:
    if np.dtype(dtype).kind == "f":
        return (-2.0, 3.0) if bounded else (-np.inf, np.inf)
    info: Any = np.iinfo(dtype)
    return (max(0, int(info.min)), 100) if bounded else (int(info.min), int(info.max))


@st.composite
def boxes(
    draw: Draw, dtypes: Sequence[Any] = (*FLOATS, *INTS), shapes: Sequence[Any] = SHAPES, bounded: bool | None = None
) -> spaces.Box:
    """Boxes of these dtypes and shapes; ``bounded``: whether float bounds are finite, ``None`` for both."""
    dtype = draw(st.sampled_from(dtypes))
    low, high = _bounds(dtype, draw(st.booleans()) if bounded is None else bounded)
    return spaces.Box(low, high, draw(st.sampled_from(shapes)), dtype)


def discretes() -> st.SearchStrategy[spaces.Discrete]:
    """Discrete spaces, including start values other than 0."""
    return st.builds(spaces.Discrete, st.integers(1, 5), start=st.integers(-2, 3))


def multi_discretes() -> st.SearchStrategy[spaces.MultiDiscrete]:
    """MultiDiscrete spaces of one and two axes, including start values other than 0."""
    flat = st.lists(st.integers(1, 4), min_size=1, max_size=3)
    started = flat.flatmap(
        lambda nvec: st.lists(st.integers(-2, 2), min_size=len(nvec), max_size=len(nvec)).map(
            lambda start: spaces.MultiDiscrete(nvec, start=start)
        )
    )
    return st.one_of(started, st.just(spaces.MultiDiscrete(np.array([[2, 3], [4, 2]]))))


def multi_binaries() -> st.SearchStrategy[spaces.MultiBinary]:
    """MultiBinary spaces."""
    sizes: list[int | tuple[int, int]] = [1, 3, (2, 2)]
    return st.sampled_from(sizes).map(spaces.MultiBinary)


def texts() -> st.SearchStrategy[spaces.Text]:
    """Text spaces."""
    return st.integers(1, 6).map(spaces.Text)


def _ragged() -> Spaces:
    graphs = st.sampled_from([None, spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(3)]).map(
        lambda edges: spaces.Graph(spaces.Box(-1.0, 1.0, (3,)), edges)
    )
    sequences = st.one_of(boxes(), discretes()).map(spaces.Sequence)
    one_of = st.tuples(boxes(), discretes()).map(spaces.OneOf)
    return st.one_of(graphs, sequences, one_of)


def _nested(parts: Spaces) -> Spaces:
    dicts = st.dictionaries(st.sampled_from(KEYS), parts, min_size=1, max_size=3).map(spaces.Dict)
    tuples = st.lists(parts, min_size=1, max_size=3).map(spaces.Tuple)
    return st.one_of(dicts, tuples)


def observation_spaces(ragged: bool = True) -> Spaces:
    """Observation spaces of all kinds, nested up to three deep.

    Args:
        ragged: Include spaces without a fixed shape: Sequence, Graph, OneOf.
    """
    leaves = st.one_of(boxes(), discretes(), multi_discretes(), multi_binaries(), texts())
    if ragged:
        leaves = st.one_of(leaves, _ragged())
    return st.one_of(leaves, st.recursive(leaves, _nested, max_leaves=4))


def action_spaces() -> Spaces:
    """Action spaces of all kinds, nested up to three deep, with bounded Boxes."""
    leaves = st.one_of(discretes(), multi_discretes(), multi_binaries(), boxes(FLOATS[:2], SHAPES, True))
    return st.one_of(leaves, st.recursive(leaves, _nested, max_leaves=3))


@st.composite
def env_specs(
    draw: Draw,
    observations: "Spaces | None" = None,
    actions: "Spaces | None" = None,
    apis: tuple[str, ...] = ("gymnasium", "ding", "gym"),
    abnormal: bool = True,
    slow: bool = False,
) -> GeneratedEnvSpec:
    """Specs of envs that comply with the contract.

    Args:
        draw: Provided by hypothesis.
        observations: Strategy of observation spaces; by default :func:`observation_spaces`.
        actions: Strategy of action spaces; by default :func:`action_spaces`.
        apis: APIs of the envs.
        abnormal: Include envs with abnormal steps.
        slow: Include envs with slow steps.
    """
    space: AnySpace = draw(observation_spaces() if observations is None else observations)
    steps = st.lists(st.integers(1, 4), max_size=1).map(tuple)
    return GeneratedEnvSpec(
        observation_space=space,
        action_space=draw(action_spaces() if actions is None else actions),
        episode_lengths=draw(st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple)),
        endings=draw(st.lists(st.sampled_from(ENDINGS), min_size=1, max_size=3).map(tuple)),
        reward_form=draw(st.sampled_from(tuple(REWARD_FORMS))),
        obs_form=draw(st.sampled_from(OBS_FORMS)),
        info_form=draw(st.sampled_from(INFO_FORMS)),
        reuse_obs=draw(st.booleans()),
        reuse_info=draw(st.booleans()),
        abnormal_steps=draw(steps) if abnormal else (),
        slow_steps=draw(steps) if slow else (),
        api=draw(st.sampled_from(apis)),
    )
