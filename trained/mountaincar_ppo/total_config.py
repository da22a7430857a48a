"""Written by `ding.config.save_config`; `read_config` reads it and it runs the same experiment."""

from easydict import EasyDict

exp_config = {
    'env': {
        'manager': {
            'episode_num': float("inf"),
            'max_retry': 1,
            'retry_step': False,
            'retry_type': 'reset',
            'on_env_failure': 'raise',
            'max_env_failures': 10,
            'max_episode_steps': None,
            'auto_reset': True,
            'step_timeout': None,
            'reset_timeout': None,
            'retry_waiting_time': 0.1,
            'check_data': True,
            'cfg_type': 'BaseEnvManagerDict',
            'type': 'base',
        },
        'stop_value': -120,
        'n_evaluator_episode': 16,
        'env_id': 'MountainCar-v0',
        'env_kwargs': {},
        'env_wrapper': [
            {
                'type': 'action_repeat',
                'kwargs': {
                    'action_repeat': 4,
                },
            },
            {
                'type': 'time_limit_is_end',
            },
            {
                'type': 'static_obs_norm',
                'kwargs': {
                    'mean': [-0.3, 0.0],
                    'std': [0.3, 0.0233],
                },
            },
            {
                'type': 'eval_episode_return',
            },
        ],
        'act_scale': None,
        'check_actions': True,
        'rew_clip': False,
        'max_episode_steps': None,
        'shared_norm': True,
        'cfg_type': 'DingEnvWrapperDict',
        'type': 'gymnasium',
        'import_names': ['ding.envs'],
        'collector_env_num': 8,
        'evaluator_env_num': 8,
    },
    'policy': {
        'model': {
            'obs_shape': 2,
            'action_shape': 3,
        },
        'learn': {
            'learner': {
                'train_iterations': 1000000000,
                'dataloader': {
                    'num_workers': 0,
                },
                'log_policy': True,
                'is_multitask_pipeline': False,
                'only_monitor_rank0': True,
                'keep_last': None,
                'on_disk_full': 'end',
                'hook': {
                    'load_ckpt_before_run': '',
                    'log_show_after_iter': 100,
                    'save_ckpt_after_iter': 10000,
                    'save_ckpt_every_minutes': None,
                    'save_ckpt_after_run': True,
                },
                'cfg_type': 'BaseLearnerDict',
            },
            'resume_training': False,
            'lr_scheduler': None,
            'on_nonfinite': 'raise',
            'amp': None,
            'compile': False,
            'epoch_per_collect': 4,
            'batch_size': 128,
            'learning_rate': 0.001,
            'value_weight': 0.5,
            'entropy_weight': 0.01,
            'clip_ratio': 0.2,
            'dual_clip': None,
            'adv_norm': True,
            'value_norm': True,
            'ppo_param_init': True,
            'grad_clip_type': 'clip_norm',
            'grad_clip_value': 0.5,
            'ignore_done': False,
            'kl_type': 'k1',
            'kl_beta': 0.0,
            'pretrained_model_path': None,
        },
        'collect': {
            'collector': {
                'deepcopy_obs': False,
                'transform_obs': False,
                'collect_print_freq': 100,
                'cfg_type': 'SampleSerialCollectorDict',
                'type': 'sample',
            },
            'unroll_len': 1,
            'discount_factor': 0.99,
            'gae_lambda': 0.98,
            'n_sample': 512,
        },
        'eval': {
            'evaluator': {
                'eval_freq': 160,
                'render': {
                    'render_freq': -1,
                    'mode': 'train_iter',
                },
                'figure_path': None,
                'stop_from_iter': 1,
                'warn_steps': 10000,
                'cfg_type': 'InteractionSerialEvaluatorDict',
                'type': 'interaction',
                'stop_value': -120,
                'n_episode': 16,
            },
        },
        'other': {
            'replay_buffer': {
                'type': 'advanced',
                'replay_buffer_size': 4096,
                'max_use': float("inf"),
                'max_staleness': float("inf"),
                'alpha': 0.6,
                'beta': 0.4,
                'anneal_step': 100000,
                'deepcopy': False,
                'enable_track_used_data': False,
                'thruput_controller': {
                    'push_sample_rate_limit': {
                        'max': float("inf"),
                        'min': 0,
                    },
                    'window_seconds': 30,
                    'sample_min_limit_ratio': 1,
                },
                'monitor': {
                    'sampled_data_attr': {
                        'average_range': 5,
                        'print_freq': 200,
                    },
                    'periodic_thruput': {
                        'seconds': 60,
                    },
                },
                'storage': {
                    'mixed_rows': True,
                    'elide_next_obs': 'auto',
                    'frame_stack': 0,
                    'path': None,
                    'device': None,
                },
                'rate_limit': {
                    'samples_per_insert': None,
                    'min_size_to_sample': 1,
                    'error_buffer': 1.0,
                    'push_size': 1,
                    'sample_size': 1,
                    'timeout_s': 0.0,
                },
                'cfg_type': 'AdvancedReplayBufferDict',
            },
            'commander': {
                'cfg_type': 'BaseSerialCommanderDict',
            },
        },
        'on_policy': True,
        'cuda': False,
        'multi_gpu': False,
        'bp_update_sync': True,
        'traj_len_inf': False,
        'reference_numerics': False,
        'num_threads': None,
        'cfg_type': 'PPOCommandModePolicyDict',
        'type': 'ppo_command',
        'priority': False,
        'priority_IS_weight': False,
        'recompute_adv': True,
        'action_space': 'discrete',
        'nstep_return': False,
        'multi_agent': False,
        'transition_with_policy_data': True,
    },
    'exp_name': 'mountaincar_ppo',
    'seed': 0,
}

main_config = EasyDict(exp_config)
create_config = EasyDict({
    'env': {
        'type': 'gymnasium',
        'import_names': ['ding.envs'],
    },
    'env_manager': {
        'type': 'base',
    },
    'policy': {
        'type': 'ppo',
    },
    'collector': {
        'type': 'sample',
    },
    'replay_buffer': {
        'type': 'advanced',
    },
})
