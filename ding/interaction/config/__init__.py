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

# The largest body that a server takes, and the deepest nesting of JSON in it.
MAX_BODY_BYTES = 16 * 2**20
MAX_JSON_DEPTH = 64
# A request that is not complete this long after its first byte is given up (slow clients).
MAX_REQUEST_SECONDS = 30.0
# How many ports ``port='auto'`` tries, upwards from the default one.
AUTO_PORT_TRIES = 64

# Where a child process finds the token of its run.
RUN_TOKEN_ENV = "DING_RUN_TOKEN"
