"""The microscope beside Nsight Compute and compute-sanitizer: the same kernels, counted and checked by both."""
