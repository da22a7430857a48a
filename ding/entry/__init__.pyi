from ding.entry.application_entry import collect_demo_data as collect_demo_data
from ding.entry.application_entry import collect_episodic_demo_data as collect_episodic_demo_data
from ding.entry.application_entry import episode_to_transitions as episode_to_transitions
from ding.entry.application_entry import episode_to_transitions_filter as episode_to_transitions_filter
from ding.entry.application_entry import eval as eval
from ding.entry.application_entry_drex_collect_data import drex_collecting_data as drex_collecting_data
from ding.entry.application_entry_trex_collect_data import (
    collect_episodic_demo_data_for_trex as collect_episodic_demo_data_for_trex,
)
from ding.entry.application_entry_trex_collect_data import trex_collecting_data as trex_collecting_data
from ding.entry.cli import cli as cli
from ding.entry.dist_entry import dist_add_replicas as dist_add_replicas
from ding.entry.dist_entry import dist_delete_replicas as dist_delete_replicas
from ding.entry.dist_entry import dist_launch_collector as dist_launch_collector
from ding.entry.dist_entry import dist_launch_coordinator as dist_launch_coordinator
from ding.entry.dist_entry import dist_launch_learner as dist_launch_learner
from ding.entry.dist_entry import dist_launch_learner_aggregator as dist_launch_learner_aggregator
from ding.entry.dist_entry import dist_launch_spawn_learner as dist_launch_spawn_learner
from ding.entry.dist_entry import dist_prepare_config as dist_prepare_config
from ding.entry.dist_entry import dist_restart_replicas as dist_restart_replicas
from ding.entry.parallel_entry import parallel_pipeline as parallel_pipeline
from ding.entry.pipelines.cloning import serial_pipeline_bc as serial_pipeline_bc
from ding.entry.pipelines.cloning import serial_pipeline_bco as serial_pipeline_bco
from ding.entry.pipelines.expert import serial_pipeline_dqfd as serial_pipeline_dqfd
from ding.entry.pipelines.expert import serial_pipeline_r2d3 as serial_pipeline_r2d3
from ding.entry.pipelines.expert import serial_pipeline_sqil as serial_pipeline_sqil
from ding.entry.pipelines.guided_cost import serial_pipeline_guided_cost as serial_pipeline_guided_cost
from ding.entry.pipelines.latent import serial_pipeline_td3_vae as serial_pipeline_td3_vae
from ding.entry.pipelines.offline import serial_pipeline_dt as serial_pipeline_dt
from ding.entry.pipelines.offline import serial_pipeline_finetune as serial_pipeline_finetune
from ding.entry.pipelines.offline import serial_pipeline_offline as serial_pipeline_offline
from ding.entry.pipelines.onpolicy import serial_pipeline_onpolicy as serial_pipeline_onpolicy
from ding.entry.pipelines.onpolicy import serial_pipeline_onpolicy_ppg as serial_pipeline_onpolicy_ppg
from ding.entry.pipelines.onpolicy import serial_pipeline_plr as serial_pipeline_plr
from ding.entry.pipelines.procedure import serial_pipeline_pc as serial_pipeline_pc
from ding.entry.pipelines.reward_model import save_reward_model as save_reward_model
from ding.entry.pipelines.reward_model import serial_pipeline_gail as serial_pipeline_gail
from ding.entry.pipelines.reward_model import serial_pipeline_ngu as serial_pipeline_ngu
from ding.entry.pipelines.reward_model import (
    serial_pipeline_preference_based_irl as serial_pipeline_preference_based_irl,
)
from ding.entry.pipelines.reward_model import (
    serial_pipeline_preference_based_irl_onpolicy as serial_pipeline_preference_based_irl_onpolicy,
)
from ding.entry.pipelines.reward_model import serial_pipeline_reward_model_ngu as serial_pipeline_reward_model_ngu
from ding.entry.pipelines.reward_model import (
    serial_pipeline_reward_model_offpolicy as serial_pipeline_reward_model_offpolicy,
)
from ding.entry.pipelines.reward_model import (
    serial_pipeline_reward_model_onpolicy as serial_pipeline_reward_model_onpolicy,
)
from ding.entry.pipelines.reward_model import (
    serial_pipeline_reward_model_trex as serial_pipeline_reward_model_trex,
)
from ding.entry.pipelines.reward_model import (
    serial_pipeline_reward_model_trex_onpolicy as serial_pipeline_reward_model_trex_onpolicy,
)
from ding.entry.pipelines.reward_model import (
    serial_pipeline_trex as serial_pipeline_trex,
)
from ding.entry.pipelines.reward_model import (
    serial_pipeline_trex_onpolicy as serial_pipeline_trex_onpolicy,
)
from ding.entry.pipelines.world_model import serial_pipeline_dream as serial_pipeline_dream
from ding.entry.pipelines.world_model import serial_pipeline_dreamer as serial_pipeline_dreamer
from ding.entry.pipelines.world_model import serial_pipeline_dyna as serial_pipeline_dyna
from ding.entry.serial_entry import serial_pipeline as serial_pipeline
from ding.entry.utils import mark_not_expert as mark_not_expert
from ding.entry.utils import mark_warm_up as mark_warm_up
from ding.entry.utils import random_collect as random_collect
from ding.entry.view.callbacks import RunCallback as RunCallback
from ding.entry.view.plot import plot as plot
from ding.parallel.launch.role import RoleFailed as RoleFailed
from ding.parallel.launch.signals import RunInterrupted as RunInterrupted
