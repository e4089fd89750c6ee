"""Training: the program of one step, its loop, checkpoints, what is reported."""
