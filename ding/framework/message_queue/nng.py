"""The default message queue by the name that scripts know: sockets of our own, for which no package is needed."""

from ding.framework.message_queue.socket_mq import SocketMQ

NNGMQ = SocketMQ
