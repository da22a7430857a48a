"""The engine of all replay buffers; those of ``ding.worker.replay_buffer`` and ``ding.data.buffer`` are views of it.

==============  ==================================================================================================
module          what it is for
==============  ==================================================================================================
`engine`        rows in a ring with lock, limits, draws, reports, states and files: what every ring buffer holds
`index`         which slot holds which row: rings, ids, use counts, staleness; ids and priorities of updates
`priorities`    draws, uniform or in proportion to priorities; importance weights and their annealing
`limits`        samples per insert, and the ratio of recent pushes to recent samples
`reports`       throughput, attributes of samples, removal of used files
`windows`       ends of episodes, windows of consecutive rows
`checks`        of configs and arguments
==============  ==================================================================================================

See :mod:`ding.data.replay.errors` for the errors.
"""
