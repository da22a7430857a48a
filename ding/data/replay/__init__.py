"""The engine of all replay buffers; the buffers of ``ding.worker.replay_buffer`` and ``ding.data.buffer`` are views.

==============  ==================================================================================================
module          what it is for
==============  ==================================================================================================
`engine`        rows in a ring with lock, limits, draws, reports and states: what every ring buffer holds
`index`         which slot holds which row: rings, queues with free slots, ids, use counts, staleness
`rows`          the rows of a buffer in the storage that fits them; their files
`priorities`    priorities of slots, draws in proportion to them, importance weights and their annealing
`draws`         random generators: seeds, uniform and stratified draws, states
`limits`        samples per insert, and the ratio of recent pushes to recent samples
`reports`       throughput, attributes of samples, removal of used files
`windows`       ends of episodes, windows of consecutive rows
`updates`       ids, priorities and train iterations as they come in with rows and updates
`checks`        of configs and arguments
==============  ==================================================================================================

The errors are drawn in :mod:`ding.data.replay.errors`.
"""
