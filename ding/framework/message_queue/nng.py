"""Default message queue under the name used by scripts; implemented with sockets, without the package nng."""

from ding.framework.message_queue.socket_mq import SocketMQ

NNGMQ = SocketMQ
