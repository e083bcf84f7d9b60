"""The environment of every ``mpirun``: the frontend's, a benchmark's, a test's, or yours.

    python -m cluster.mpi_environment

prints it, one variable a line. ``bin/mpirun`` sets it; the learner's image has it.
"""

# Open MPI looks for the machine's devices with hwloc. On Debian, hwloc also tries the X displays :0
# to :9, which are ports 6000 to 6009 of this machine. It waits for ever if a program accepts the
# connection without being an X server, as TensorBoard does on 6006. -gl leaves out X displays.
COMPONENTS = "-gl"

ENVIRONMENT = {
    "HWLOC_COMPONENTS": COMPONENTS,
    # mpirun starts orted on other hosts by SSH, which does not pass on the environment.
    "OMPI_MCA_orte_launch_agent": f"env HWLOC_COMPONENTS={COMPONENTS} orted",
    # mpirun refuses to run as root unless allowed twice; containers often have no other user.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}

if __name__ == "__main__":
    for variable, value in ENVIRONMENT.items():
        print(f"{variable}={value}")
