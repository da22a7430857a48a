from ding.utils.data.structure.cache import Cache as Cache
from ding.utils.data.structure.lifo_deque import LifoDeque as LifoDeque
