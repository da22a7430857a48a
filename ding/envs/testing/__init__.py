"""Envs for tests of this library and of user code: a predictable counting env, and a generator of envs.

* :class:`CountingEnv` counts episodes and steps, and can inject faults at exact places.
* :class:`GeneratedEnv` is an env described by a :class:`GeneratedEnvSpec`: spaces, forms of rewards, observations and
  infos, lengths and ends of episodes, reuse of arrays. :func:`env_specs` generates specs (hypothesis).
* :func:`check_manager` runs generated envs in an env manager and compares all results with a plain loop.

A test of a custom env manager::

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
