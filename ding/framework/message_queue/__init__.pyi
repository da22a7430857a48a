from ding.framework.message_queue.mq import MQ as MQ
from ding.framework.message_queue.redis_mq import RedisMQ as RedisMQ
from ding.framework.message_queue.socket_mq import SocketMQ as SocketMQ
