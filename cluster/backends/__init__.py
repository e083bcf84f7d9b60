"""What starts the processes of a run, knows whether they live, and ends them."""
