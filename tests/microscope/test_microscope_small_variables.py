"""Variables of a thread of fewer than four bytes that nobody has set: halves, flags, letters."""

import numpy as np
import pytest
from watched_kernels import X

import minigrad as mg

HEADERS = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
UNSET = {
    "s": "__half s; for (int i = 0; i < n; ++i) s = __hadd(s, __float2half(x[i])); y[t] = __half2float(s);",
    "sum": "__nv_bfloat16 sum; for (int i = 0; i < n; ++i) sum += __float2bfloat16(x[i]); y[t] = float(sum);",
    "acc[i % 4]": "half acc[4]; for (int i = 0; i < n; ++i) acc[i % 4] += half(x[i]); y[t] = float(acc[1]);",
    "found": "bool found; for (int i = 0; i < n; ++i) if (x[i] > 1e9f) found = true; if (found) y[t] = 1;",
    "flag": "int flag; if (t > 40) flag = 1; if (flag) y[t] = 1;",
    "go": "bool go; while (go) go = false; y[t] = 1;",
    "any": "bool any; any = any || x[t] > 3; y[t] = any;",
    "done": "bool done; if (t < 5) done = false; if (!done) y[t] = 1;",
    "m": "unsigned char m; for (int i = 0; i < 8; ++i) m |= 1 << i; y[t] = m;",
    "k": "short k; if (t > 4) k = 3; y[t] = x[k & 7];",
    "b[5]": "char b[8]; b[0] = 1; y[t] = b[5] + b[0];",
    "c.x": "uchar3 c; c.x += 1; y[t] = c.x;",
    "letter": "char letter; if (t > 40) letter = 1; switch (letter) { case 1: y[t] = 1; break; default: y[t] = 2; }",
}
FUNCTIONS = """__device__ void give(short& k) { k = 3; }
__device__ void put(short* p) { *p = 4; }
__device__ int read(bool* b, short* s, unsigned char* c) { return *b + *s + *c; }
__device__ int given(bool b, short s, unsigned char c) {
    bool q; short w; unsigned char e;
    q = b; w = s; e = c;
    return read(&b, &s, &c) + q + w + e;
}
__device__ float leaves(int t) { bool a; short b; unsigned char c; if (t > 100) { a = b = c = 1; return a + b + c; } return 1; }
__device__ float takes(bool a, short b, unsigned char c) { return read(&a, &b, &c); }
struct S { bool a, b; short c; };
"""
SET = {
    "by a branch": "__half q; if (t > 3) q = x[t]; else q = __float2half(1.0f); q += q; y[t] = float(q);",
    "by a function": "short k, j; give(k); put(&j); y[t] = k + j;",
    "as a parameter": "y[t] = given(t > 3, t, t) + given(t < 5, 2, 253);",
    "to what stood there": "short s; s = -515; y[t] = given(1, -515, 253) + s;",
    "where another's lay": "float a = leaves(t), b = takes(t > 1, 7, 253); y[t] = a + b;",
    "by a copy": "short s; memcpy(&s, x, 2); unsigned char b[4]; memcpy(b, &x[t], 4); y[t] = s + b[3];",
    "as a wider one": "unsigned char w[2]; *(unsigned short*)w = 513; char v[4]; *(int*)v = t; y[t] = w[1] + v[3];",
    "from hand to hand": "half a, b; a = x[t]; b = a; for (int i = 0; i < n; i++) { a = b; b = x[i]; } y[t] = float(a + b);",
    "in each turn": "for (int i = 0; i < n; i++) { bool q; char c; if (i >= 0) { q = true; c = i; } y[t] += q + c; }",
    "member by member": "S s; s.a = true; s.c = 2; S q = s; s.b = q.a; y[t] = q.a + q.c + s.b;",
    "before a vote": "bool p, all; p = x[t] > 3; all = __all_sync(~0u, p); y[t] = __popc(__ballot_sync(~0u, p)) + all;",
}


def problems(body):
    text = f"{HEADERS}{FUNCTIONS}__global__ void k(const float* x, float* y, int n) {{ int t = threadIdx.x;\n{body}\n}}"
    return mg.inspect(text, X, np.zeros_like(X), 16, grid=1, block=32).problems


@pytest.mark.parametrize("place", UNSET)
def test_a_small_variable_that_nobody_has_set(place):
    (problem,) = problems(UNSET[place])
    assert (problem.kind, problem.line) == ("uninitialised", 15)
    assert f" {place}, which nothing has set" in problem.message


@pytest.mark.parametrize("body", SET.values(), ids=SET)
def test_a_small_variable_that_is_set(body):
    assert problems(body) == []
