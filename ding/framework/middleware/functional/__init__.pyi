from ding.framework.middleware.data_fetcher import offline_data_fetcher_from_mem as offline_data_fetcher_from_mem
from ding.framework.middleware.functional.advantage_estimator import gae_estimator as gae_estimator
from ding.framework.middleware.functional.advantage_estimator import (
    montecarlo_return_estimator as montecarlo_return_estimator,
)
from ding.framework.middleware.functional.advantage_estimator import ppof_adv_estimator as ppof_adv_estimator
from ding.framework.middleware.functional.collector import TransitionList as TransitionList
from ding.framework.middleware.functional.collector import inferencer as inferencer
from ding.framework.middleware.functional.collector import output_log as output_log
from ding.framework.middleware.functional.collector import rolloutor as rolloutor
from ding.framework.middleware.functional.ctx_helper import final_ctx_saver as final_ctx_saver
from ding.framework.middleware.functional.data_processor import buffer_saver as buffer_saver
from ding.framework.middleware.functional.data_processor import data_pusher as data_pusher
from ding.framework.middleware.functional.data_processor import offline_data_fetcher as offline_data_fetcher
from ding.framework.middleware.functional.data_processor import offline_data_saver as offline_data_saver
from ding.framework.middleware.functional.data_processor import offpolicy_data_fetcher as offpolicy_data_fetcher
from ding.framework.middleware.functional.data_processor import qgpo_offline_data_fetcher as qgpo_offline_data_fetcher
from ding.framework.middleware.functional.data_processor import (
    qgpo_support_data_generator as qgpo_support_data_generator,
)
from ding.framework.middleware.functional.data_processor import sqil_data_pusher as sqil_data_pusher
from ding.framework.middleware.functional.enhancer import her_data_enhancer as her_data_enhancer
from ding.framework.middleware.functional.enhancer import nstep_reward_enhancer as nstep_reward_enhancer
from ding.framework.middleware.functional.enhancer import priority_calculator as priority_calculator
from ding.framework.middleware.functional.enhancer import reward_estimator as reward_estimator
from ding.framework.middleware.functional.evaluator import IMetric as IMetric
from ding.framework.middleware.functional.evaluator import VectorEvalMonitor as VectorEvalMonitor
from ding.framework.middleware.functional.evaluator import interaction_evaluator as interaction_evaluator
from ding.framework.middleware.functional.evaluator import interaction_evaluator_ttorch as interaction_evaluator_ttorch
from ding.framework.middleware.functional.evaluator import metric_evaluator as metric_evaluator
from ding.framework.middleware.functional.explorer import eps_greedy_handler as eps_greedy_handler
from ding.framework.middleware.functional.explorer import eps_greedy_masker as eps_greedy_masker
from ding.framework.middleware.functional.logger import offline_logger as offline_logger
from ding.framework.middleware.functional.logger import online_logger as online_logger
from ding.framework.middleware.functional.termination_checker import ddp_termination_checker as ddp_termination_checker
from ding.framework.middleware.functional.termination_checker import termination_checker as termination_checker
from ding.framework.middleware.functional.timer import epoch_timer as epoch_timer
from ding.framework.middleware.functional.trainer import multistep_trainer as multistep_trainer
from ding.framework.middleware.functional.trainer import trainer as trainer
from ding.framework.middleware.functional.wandb_logger import wandb_offline_logger as wandb_offline_logger
from ding.framework.middleware.functional.wandb_logger import wandb_online_logger as wandb_online_logger
