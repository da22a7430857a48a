"""Default ports, hosts and time spans of the control plane. All times are seconds on the monotonic clock."""

GLOBAL_HOST = "0.0.0.0"
LOCAL_HOST = "127.0.0.1"

DEFAULT_REQUEST_RETRIES = 5
DEFAULT_REQUEST_RETRY_WAITING = 1.0
DEFAULT_REQUEST_TIMEOUT = 10.0

MIN_HEARTBEAT_SPAN = 0.2
DEFAULT_HEARTBEAT_SPAN = 3.0
DEFAULT_SLAVE_PORT = 7236

MIN_HEARTBEAT_CHECK_SPAN = 0.1
DEFAULT_HEARTBEAT_CHECK_SPAN = 1.0
DEFAULT_HEARTBEAT_TOLERANCE = 17.0
DEFAULT_MASTER_PORT = 7235

DEFAULT_CHANNEL = 0

# Maximum body size of a task or a result, and of any other message.
MAX_BODY_BYTES = 16 * 2**20
MAX_CONTROL_BYTES = 2**20
# Maximum nesting of JSON in a body, and maximum number of opening brackets, commas and quotes: decoding time depends
# on the number of values, not of bytes.
MAX_JSON_DEPTH = 64
MAX_JSON_SIGNS = 2**19
MAX_HEADER_BYTES = 16 * 2**10
# Maximum number of connections of a server, and the time after which it closes an idle one. Closed peers reconnect.
MAX_CONNECTIONS = 2000
IDLE_SECONDS = 20.0
# Over TLS: time that a worker thread waits for the next part of a request.
MAX_REQUEST_SECONDS = 30.0
# Number of ports that ``port='auto'`` tries, upwards from the default one.
AUTO_PORT_TRIES = 64
