// The dialect is included before every file; this has the version alone.
#pragma once
#define CUDA_VERSION 13000
