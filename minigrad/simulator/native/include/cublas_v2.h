// Of the library the types of its numbers alone; its functions are the host's.
#include "cuComplex.h"
#include "cuda_bf16.h"
#include "cuda_fp16.h"
