from ding.model.common import *
from ding.model.template import *
from ding.model.wrapper import *
