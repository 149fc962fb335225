"""CUDA C++ read into the typed syntax tree: pointers, structs and calls become numbers, arrays and statements."""
