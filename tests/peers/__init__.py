"""Models written a second time, in PyTorch: what it makes of the same numbers, in binary64, is compared with the exact reference.

Nothing here imports the compiler but `test_peers`, and only `torch_models` imports PyTorch, which `make peers` installs apart.
"""
