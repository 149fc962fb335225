"""The CUDA C++ subset: its syntax tree, parser, data flow, rewriting and printer."""
