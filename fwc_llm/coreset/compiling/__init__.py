"""Compiled code: how kernels are compiled, what is said meanwhile, and the way to numba's private parts."""
