"""Models written a second time, in PyTorch: what it makes of the same numbers, in binary64, is compared with the exact reference.

Nothing here imports the compiler but the tests, and only `torch_models` and what is named `…recompute` import PyTorch, which `make
peers` installs apart. `draws` makes keys and masks once more, for trainings that drop.
"""
