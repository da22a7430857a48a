from ding.framework.message_queue.mq import MQ as MQ
from ding.framework.message_queue.nng import NNGMQ as NNGMQ
from ding.framework.message_queue.redis import RedisMQ as RedisMQ
from ding.framework.message_queue.socket_mq import SocketMQ as SocketMQ
