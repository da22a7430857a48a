"""Envs for tests of this library and of its users: one whose every number is known, and a generator of envs.

* :class:`CountingEnv` counts episodes and steps, and has faults at exact places.
* :class:`GeneratedEnv` is any env that a :class:`GeneratedEnvSpec` describes: spaces, forms of rewards, observations
  and infos, lengths and ends of episodes, arrays that it fills again. :func:`env_specs` draws specs (hypothesis).
* :func:`check_manager` runs generated envs through an env manager and compares all it hands out with a plain loop.

A test of an env manager of your own::

    from hypothesis import given
    from ding.envs.testing import check_manager, env_specs

    @given(env_specs())
    def test_my_manager(spec):
        check_manager(lambda env_fns: MyManager(env_fns), spec)
"""

# Registers the counting env.
from ding.envs.testing import counting  # noqa: F401
from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
