from ding.entry.view.access_file import AccessFile as AccessFile
from ding.entry.view.access_file import read_status as read_status
from ding.entry.view.live import LiveView as LiveView
from ding.entry.view.status import RunStatus as RunStatus
from ding.entry.view.views import PlainView as PlainView
from ding.entry.view.views import RunView as RunView
from ding.entry.view.views import console_lines as console_lines
from ding.entry.view.views import make_view as make_view
