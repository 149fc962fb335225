"""Validation of the microscope: the same kernels under Nsight Compute and compute-sanitizer on a GPU."""
