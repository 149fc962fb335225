// Of the library the types of its numbers alone; its functions are the host's.
#pragma once
#include "cuComplex.h"

typedef float cufftReal;
typedef double cufftDoubleReal;
typedef cuComplex cufftComplex;
typedef cuDoubleComplex cufftDoubleComplex;
