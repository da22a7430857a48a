"""A proxy for HTTP that does to requests and answers what networks do (R15)."""

import http.client
import http.server
import random
import socket
import struct
import threading
from collections import Counter

# What happens to a request, and how often.
FAULTS = {
    "delay": 0.02,  # two seconds
    "lose request": 0.05,
    "lose answer": 0.05,
    "double": 0.10,  # the second one comes late, when others have passed it
    "reset": 0.02,
    "half-open": 0.005,  # the request arrives; the answer never comes, and the connection stays
    "reorder": 0.20,  # others pass it
}
_HALF_OPEN_S = 15.0
_FORWARD_S = 60.0


class Proxy:
    """Listens on a port of its own and passes requests on to ``target`` on the same host.

    Args:
        target: port.
        faults: ``{kind: probability}``.
        seed: of the choice of faults.
    """

    def __init__(self, target, faults, seed):
        self.target, self.faults = target, dict(faults)
        self.counts = Counter()
        self.over = threading.Event()
        self._chance, self._lock = random.Random(seed), threading.Lock()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self._server.server_port}"

    def draw(self):
        """The fault of the next request, and a number in [0, 1)."""
        with self._lock:
            (fault,) = self._chance.choices(
                [*self.faults, None], [*self.faults.values(), 1 - sum(self.faults.values())]
            )
            self.counts[fault] += 1
            return fault, self._chance.random()

    def forward(self, method, path, headers, body):
        """Status, type and body of the answer; ``None`` when nobody listens."""
        connection = http.client.HTTPConnection("127.0.0.1", self.target, timeout=_FORWARD_S)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheader("Content-Type", "application/json"), answer.read()
        except (OSError, http.client.HTTPException):
            self.counts["unreachable"] += 1
            return None
        finally:
            connection.close()

    def close(self):
        self.over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler_of(proxy):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle_request(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {key: value for key, value in self.headers.items() if key.lower() not in ("connection", "host")}
            message = (self.command, self.path, headers, body)
            fault, chance = proxy.draw()
            if fault == "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if fault in ("reset", "lose request"):
                self.close_connection = True
                return
            if fault in ("delay", "reorder"):
                proxy.over.wait(2.0 if fault == "delay" else 0.3 * chance)
            answer = proxy.forward(*message)
            if fault == "double":
                late = threading.Timer(chance, proxy.forward, message)
                late.daemon = True
                late.start()
            if fault == "half-open":
                proxy.over.wait(_HALF_OPEN_S)
            if answer is None or fault in ("lose answer", "half-open"):
                self.close_connection = True
                return
            self._answer(*answer)

        def _answer(self, status, kind, body):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

        do_GET = do_POST = do_PUT = do_DELETE = handle_request

    return Handler
