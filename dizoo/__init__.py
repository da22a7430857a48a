"""DI-engine's zoo, as far as it is built here: ``dizoo.mujoco.envs`` gives the env of ``ding.envs.zoo``.

Where DI-engine's own zoo is installed or lies on the path, this package leaves its name to it.
"""

from ding.utils.original_names import take_the_place_of_a_zoo

take_the_place_of_a_zoo(__name__)
