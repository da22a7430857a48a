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
# A request that is not complete this long after its headers is given up (slow clients). The headers themselves have to
# be there sooner, on a new connection counted from its beginning on.
MAX_REQUEST_SECONDS = 30.0
HEADER_SECONDS = 5.0
# How many ports ``port='auto'`` tries, upwards from the default one.
AUTO_PORT_TRIES = 64
