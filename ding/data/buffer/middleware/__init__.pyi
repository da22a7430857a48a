from ding.data.buffer.middleware.clone_object import clone_object as clone_object
from ding.data.buffer.middleware.group_sample import group_sample as group_sample
from ding.data.buffer.middleware.padding import padding as padding
from ding.data.buffer.middleware.priority import PriorityExperienceReplay as PriorityExperienceReplay
from ding.data.buffer.middleware.sample_range_view import sample_range_view as sample_range_view
from ding.data.buffer.middleware.staleness_check import staleness_check as staleness_check
from ding.data.buffer.middleware.use_time_check import use_time_check as use_time_check
