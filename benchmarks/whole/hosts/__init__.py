"""What a frontend costs in front of many hosts: time, descriptors, threads, bytes.

    python -m benchmarks hosts [--hosts=8,16,32,64] [--real=8] [--cut_s=20]

Each host is a network namespace of this machine with processes of its own, an sshd and the
project's files; that takes root. The first has a learner, each an actor, all under real keepers.
They run an idle program, except in one more run of the largest number, in which the learner learns
and `--real` actors play. Start, status and stop are the frontend's own commands. In another run,
`--cut_s` cuts the link to the last host for so long in the middle of the start. Lines are fitted to
what the numbers of hosts have cost, and extended to 256.
"""
