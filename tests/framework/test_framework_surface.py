"""Every name of the framework and its data is there, with the parameters of DI-engine."""

import importlib
import inspect

import pytest

# Module: name, or Class.method -> parameters with their defaults. None: an attribute.
NAMES = {
    "ding.framework": {
        "Task.start": "self, async_mode=False, n_async_workers=3, ctx=None, labels=None",
        "Task.use": "self, fn, lock=False",
        "Task.use_wrapper": "self, fn",
        "Task.wrap": "self, fn, lock=False",
        "Task.run": "self, max_step=1000000000000",
        "Task.forward": "self, fn, ctx=None",
        "Task.backward": "self, backward_stack=None",
        "Task.serial": "self, *fns",
        "Task.parallel": "self, *fns",
        "Task.void": "self",
        "Task.sync": "self",
        "Task.sync_tasks": "self",
        "Task.async_executor": "self, fn, *args",
        "Task.renew": "self",
        "Task.stop": "self",
        "Task.emit": "self, event, *args, only_remote=False, only_local=False, **kwargs",
        "Task.on": "self, event, fn",
        "Task.once": "self, event, fn",
        "Task.off": "self, event, fn=None",
        "Task.wait_for": "self, event, timeout=inf, ignore_timeout_exception=True",
        "Task.add_role": "self, role",
        "Task.has_role": "self, role",
        "Task.match_labels": "self, patterns",
        "Task.init_labels": "self",
        "Task.get_attch_to_len": "self",
        "Context.keep": "self, *keys",
        "Context.renew": "self",
        "Context.has_attr": "self, key",
        "EventLoop": "name='default'",
        "EventLoop.on": "self, event, fn",
        "EventLoop.once": "self, event, fn",
        "EventLoop.off": "self, event, fn=None",
        "EventLoop.emit": "self, event, *args, **kwargs",
        "EventLoop.listened": "self, event",
        "EventLoop.get_event_loop": "name='default'",
        "EventLoop.stop": "self",
        "Parallel.runner": (
            "n_parallel_workers, mq_type='nng', attach_to=None, protocol='ipc', address=None, ports=None, "
            "topology='mesh', labels=None, node_ids=None, auto_recover=False, max_retries=inf, redis_host=None, "
            "redis_port=None, startup_interval=1, log_dir=None"
        ),
        "Parallel.on": "self, event, fn",
        "Parallel.once": "self, event, fn",
        "Parallel.off": "self, event",
        "Parallel.emit": "self, event, *args, retain=False, **kwargs",
        "Parallel.listen": "self",
        "Parallel.stop": "self",
        "Parallel.get_ip": "",
        "Parallel.get_node_addrs": "num, protocol='ipc', address=None, ports=None, folder=None",
        "Parallel.padding_param": "value, num, start",
        "Parallel.get_attch_to_len": "self",
        "Parallel.get_barrier_runtime": "self",
        "Supervisor": "type_, mp_ctx=None",
        "Supervisor.register": "self, init, shm_buffer=None, shm_callback=None",
        "Supervisor.start_link": "self",
        "Supervisor.send": "self, payload",
        "Supervisor.recv": "self, ignore_err=False, timeout=None",
        "Supervisor.recv_all": "self, send_payloads, ignore_err=False, callback=None, timeout=None",
        "Supervisor.get_child_attr": "self, proc_id, key",
        "Supervisor.shutdown": "self, timeout=None",
        "VoidMiddleware": "",
        "ding_init": "cfg",
        **dict.fromkeys(["OnlineRLContext", "OfflineRLContext", "Role", "task"]),
        **dict.fromkeys(f"task.{name}" for name in ("router", "finish", "role")),
    },
    "ding.framework.task": dict.fromkeys(["Role", "VoidMiddleware", "enable_async", "task"]),
    "ding.framework.supervisor": {
        "SendPayload": "proc_id, req_id=<factory>, method=None, args=<factory>, kwargs=<factory>",
        "RecvPayload": "proc_id, req_id=None, method=None, data=None, err=None, extra=None",
        **dict.fromkeys(["Child", "ChildProcess", "ChildThread", "get_mp_ctx"]),
        **dict.fromkeys(["ChildType.PROCESS", "ChildType.THREAD", "ReserveMethod.SHUTDOWN", "ReserveMethod.GETATTR"]),
    },
    "ding.framework.message_queue": dict.fromkeys(["MQ", "NNGMQ", "RedisMQ"]),
    "ding.framework.message_queue.mq": {
        "MQ": "*args, **kwargs",
        "MQ.listen": "self",
        "MQ.publish": "self, topic, data",
        "MQ.subscribe": "self, topic",
        "MQ.unsubscribe": "self, topic",
        "MQ.recv": "self",
        "MQ.stop": "self",
    },
    "ding.framework.message_queue.nng": {
        "NNGMQ": "listen_to, attach_to=None, token='', on_peer=None, **kwargs",
    },
    "ding.framework.message_queue.redis": {
        "RedisMQ": "redis_host=None, redis_port=None, token='', on_peer=None, **kwargs",
    },
    "ding.framework.wrapper": {"StepTimer": "print_per_step=1, smooth_window=10"},
    "ding.entry.cli_ditask": {"cli_ditask": None},
    "ding.entry.cli_parsers.slurm_parser": {"slurm_parser": "platform_spec, **kwargs"},
    "ding.entry.cli_parsers.k8s_parser": {"k8s_parser": "platform_spec, **kwargs"},
    "ding.utils": {
        "MQ_REGISTRY": None,
        "DistributedWriter.get_instance": "*args, **kwargs",
        "DistributedWriter.plugin": "self, router, is_writer=False",
        "DistributedWriter.initialize": "self",
        "SegmentTree": "capacity, operation, neutral_element=None",
        "SumSegmentTree.find_prefixsum_idx": "self, prefixsum, trust_caller=True",
        "MinSegmentTree": "capacity",
    },
    "ding.data": {
        "Buffer": "size",
        "BufferedData": "data, index, meta",
        "apply_middleware": None,
        "DequeBuffer": "size, sliced=False",
        "DequeBuffer.push": "self, data, meta=None",
        "DequeBuffer.sample": (
            "self, size=None, indices=None, replace=False, sample_range=None, ignore_insufficient=False, groupby=None, "
            "unroll_len=None"
        ),
        "DequeBuffer.update": "self, index, data=None, meta=None",
        "DequeBuffer.delete": "self, index",
        "DequeBuffer.clear": "self",
        "DequeBuffer.get": "self, idx",
        "DequeBuffer.get_by_index": "self, index",
        "DequeBuffer.count": "self",
        "DequeBuffer.use": "self, func",
        "DequeBuffer.view": "self",
        "DequeBuffer.save_data": "self, file_name",
        "DequeBuffer.load_data": "self, file_name",
        "DequeBufferWrapper.default_config": "",
        "Storage": "path",
        "Storage.save": "self, data",
        "Storage.load": "self",
        "FileStorage": "path",
        "FileModelStorage": "path",
        "StorageLoader": "worker_num=3",
        "StorageLoader.load": "self, storage, callback",
        "FileStorageLoader": "dirname, ttl=20, worker_num=3",
        "ModelLoader": "model",
        "ModelLoader.start": "self",
        "ModelLoader.load": "self, storage",
        "FileModelLoader": "model, dirname, ttl=20",
        "FileModelLoader.save": "self, callback",
        "ShmBuffer": "dtype, shape, copy_on_get=True, ctype=None",
        "ShmBufferContainer": "dtype, shape, copy_on_get=True",
        "create_dataset": "cfg, **kwargs",
        "offline_data_save_type": "exp_data, expert_data_path, data_type='naive'",
        **dict.fromkeys(["Dataset", "DataLoader"]),
    },
    "ding.data.buffer.deque_buffer": {
        "BufferIndex": "maxlen",
        "BufferIndex.append": "self, key",
        "BufferIndex.has": "self, key",
        "BufferIndex.get": "self, key",
        "BufferIndex.clear": "self",
    },
    "ding.data.storage_loader": {"StorageWorker": ""},
    "ding.data.model_loader": {"ModelWorker": ""},
    "ding.data.buffer.middleware": {
        "PriorityExperienceReplay": (
            "buffer, IS_weight=True, priority_power_factor=0.6, IS_weight_power_factor=0.4, "
            "IS_weight_anneal_train_iter=100000"
        ),
        "clone_object": "",
        "use_time_check": "buffer_, max_use=inf",
        "staleness_check": "buffer_, max_staleness=inf",
        "padding": "policy='random'",
        "sample_range_view": "buffer_, start=None, end=None",
        "group_sample": "size_in_group, ordered_in_group=True, max_use_in_group=True",
    },
}


@pytest.mark.parametrize("module", NAMES)
def test_names_and_parameters(module) -> None:
    found = {}
    for name in NAMES[module]:
        value = importlib.import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
        found[name] = None if NAMES[module][name] is None else parameters(value)
    assert found == NAMES[module]


def parameters(value: object) -> str:
    given = inspect.signature(value).parameters.values()
    return ", ".join(str(one.replace(annotation=one.empty)) for one in given)
