from ding.model.common._conv_encoder import ConvEncoder as ConvEncoder
from ding.model.common._dict_encoder import DictEncoder as DictEncoder
from ding.model.common._fc_encoder import FCEncoder as FCEncoder
from ding.model.common._impala_encoder import IMPALACnnDownStack as IMPALACnnDownStack
from ding.model.common._impala_encoder import IMPALACnnResidualBlock as IMPALACnnResidualBlock
from ding.model.common._impala_encoder import IMPALAConvEncoder as IMPALAConvEncoder
from ding.model.common._time_encoder import GaussianFourierProjectionTimeEncoder as GaussianFourierProjectionTimeEncoder
