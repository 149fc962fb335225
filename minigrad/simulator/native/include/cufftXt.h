#include "cufft.h"
