"""How throughput grows with learners and actors.

    python -m benchmarks scaleup [--learners=1,2] [--actors=0] [--batch_size=32 …]
    python -m benchmarks scaleup --workers_csv_path=hosts.csv --learners=1,2,4 --actors=8,16

`--actors` counts those of each learner; with 0, learners make up their unrolls, so that nothing
but learning is measured. Everything measured is `experiment.py`, under `mpirun` where there are
several learners. Two ratios stand in the table, for two questions:

- against one learner alone: how much N learners do of what N machines with one learner would do.
  Where learners share a machine, that also has in it what they take from one another: memory,
  caches, the power budget, and whole halves of a core where two of them are threads of one.
- against learners apart: as many learners on the same cores at the same time that know nothing
  of one another. What is missing to 1.00 is what it costs to average gradients, and no more.

On this machine each learner is pinned to a core of its own, also when it is alone. The cases of
a turn come one after another, and a ratio is taken within each turn; the table has the medians.
"""
