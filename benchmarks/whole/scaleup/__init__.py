"""How throughput grows with learners and actors.

    python -m benchmarks scaleup [--learners=1,2] [--actors=0] [--batch_size=32 …]
    python -m benchmarks scaleup --workers_csv_path=hosts.csv --learners=1,2,4 --actors=8,16

`--actors` counts those of each learner; with 0, learners use synthetic unrolls, so that
only learning is measured. Everything measured is `experiment.py`, under `mpirun` where there are
several learners. The table has two ratios, for two questions:

- against one learner alone: how much N learners do of what N machines with one learner would do.
  If learners share a machine, this includes the cost of sharing memory,
  caches, the power budget, and whole halves of a core where two of them are threads of one.
- against learners apart: as many learners on the same cores at the same time without
  any contact. The difference to 1.00 is the cost of averaging gradients alone.

Learners on the same host of a CSV each need GPUs in its column cuda_visible_devices. What a killed
benchmark leaves on hosts ends by itself after some minutes; before that, `run_experiment_mm_raw.py`
with `--action=stop` and, as `--logdir`, the folder that was printed last ends it.

On this machine each learner is pinned to a core of its own, also when it is alone. The cases of
a turn come one after another, and a ratio is taken within each turn; the table has the medians.
"""
