"""A stranger in a process of its own, for the tests to let in: ``python chaos_strangers.py PORT CONNECTIONS REQUEST``.

Keeps many connections open, each of which sends REQUEST (Python bytes) again and again; closed ones are opened anew.
Says ``open`` on standard output when all were opened, and goes on until it is killed.
"""

import ast
import contextlib
import selectors
import socket
import sys
import threading


def open_one(selector, port):
    connection = socket.socket()
    connection.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        connection.connect(("127.0.0.1", port))
    selector.register(connection, selectors.EVENT_READ)


def main(port, connections, request):
    selector = selectors.DefaultSelector()
    for _ in range(connections):
        open_one(selector, port)
    print("open", flush=True)
    pace = threading.Event()
    while not pace.wait(0.05):
        for key, _ in selector.select(0.2):
            with contextlib.suppress(OSError):
                if key.fileobj.recv(4096):
                    continue
            selector.unregister(key.fileobj)
            key.fileobj.close()
            open_one(selector, port)
        for key in list(selector.get_map().values()):
            with contextlib.suppress(OSError):
                key.fileobj.send(request)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), ast.literal_eval(sys.argv[3]))
