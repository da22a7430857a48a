from ding.entry.sweep.parameters import Parameter as Parameter
from ding.entry.sweep.parameters import parse_parameter as parse_parameter
from ding.entry.sweep.report import plot_trials as plot_trials
from ding.entry.sweep.report import table as table
from ding.entry.sweep.study import Sweep as Sweep
from ding.entry.sweep.study import TrialResult as TrialResult
