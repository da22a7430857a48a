"""Default ports, hosts and spans of the control plane. All times are seconds on the monotonic clock."""

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

# The largest body of a task or a result, and of any other message.
MAX_BODY_BYTES = 16 * 2**20
MAX_CONTROL_BYTES = 2**20
# The deepest nesting of JSON in a body, and how many opening brackets, commas and quotes it may have: what takes time
# is the number of values, not that of bytes.
MAX_JSON_DEPTH = 64
MAX_JSON_SIGNS = 2**19
MAX_HEADER_BYTES = 16 * 2**10
# How many connections a server holds at once, and how long it keeps one on which nothing arrives. Peers that are closed
# for that connect again.
MAX_CONNECTIONS = 2000
IDLE_SECONDS = 20.0
# Over TLS: how long a worker thread waits for the next part of a request.
MAX_REQUEST_SECONDS = 30.0
# How many ports ``port='auto'`` tries, upwards from the default one.
AUTO_PORT_TRIES = 64
