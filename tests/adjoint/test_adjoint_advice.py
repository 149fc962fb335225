"""The advice of a refusal works when it is followed: each refused kernel beside the one that follows the sentence."""

import re

import adjoint_advice
import numpy as np
import pytest
from adjoint_advice import GROUPS, PAIR

import minigrad as mg
from minigrad.adjoint import NotDifferentiable

# arrays of doubles that are read, written, both; a number; whole numbers and floats in memory
PARAMS = "const double* x, const double* w, double* y, int n, int c, double* m, int* h, float* z"
TILE = "auto tile = cg::tiled_partition<32>(cg::this_thread_block()); "
ROW = "struct Row { double v[3]; };"


def kernel(body, ahead="", params=PARAMS):
    return f"{ahead}\n__global__ void f({params}) {{\nint i = threadIdx.x;\n{body}\n}}\n"


def turns(loops, factor, inside=""):
    """Loops within one another, of one turn each."""
    heads = "".join(f"for (int k{n} = 0; k{n} < 1; k{n}++) {{ v = v * {factor}; " for n in range(loops))
    return f"{heads}{inside}{'}' * loops}"


# the sentence; the refused body, and what stands ahead of it; the body that follows the advice, and what is ahead of it
ADVICE = {
    "are the most; put the inner ones into a __device__ function that returns a number": (
        (f"double v = x[i]; {turns(30, 'x[i]')} y[i] = v;",),
        (f"double v = x[i]; {turns(15, 'x[i]', 'v = inner(v, x[i]);')} y[i] = v;",
         f"__device__ double inner(double v, double z) {{ {turns(15, 'z')} return v; }}"),
    ),
    "for two pointers let an index that changes choose half of one array": (
        ("double a[2], b[2]; a[0] = x[i]; double* p = a; double* q = b; q[0] = p[0] * x[i]; "
         "std::swap(p, q); y[i] = p[0];",),
        ("double s[2][2]; int k = 0; s[k][0] = x[i]; s[1 - k][0] = s[k][0] * x[i]; k = 1 - k; y[i] = s[k][0];",),
    ),
    "give each lane the number of the lane that it reads: __shfl_sync(mask, v, lane)": (
        ("double v = x[i]; y[i] = v * __shfl_down_sync(0xffffffffu, v, i % 3);",),
        ("double v = x[i]; y[i] = v * __shfl_sync(0xffffffffu, v, i + i % 3 < 32 ? i + i % 3 : i);",),
    ),
    "swap numbers by a third": (
        ("double a = x[i], b = w[i]; std::swap(a, b); y[i] = a * a * b;",),
        ("double a = x[i], b = w[i]; double t = a; a = b; b = t; y[i] = a * a * b;",),
    ),
    "s is a pointer to an array; write auto& s = ...": (
        ("__shared__ double t[2][32]; t[0][i] = x[i]; t[1][i] = w[i]; __syncthreads(); "
         "double (*s)[32] = t; y[i] = s[1][i] * s[0][31 - i];",),
        ("__shared__ double t[2][32]; t[0][i] = x[i]; t[1][i] = w[i]; __syncthreads(); "
         "auto& s = t; y[i] = s[1][i] * s[0][31 - i];",),
    ),
    "s is a pointer to an array; read its numbers by one index, x[i * 4 + j]": (
        ("const double (*s)[4] = (const double (*)[4])x; y[i] = s[i / 4][1] * s[i / 4][2];",),
        ("y[i] = x[i / 4 * 4 + 1] * x[i / 4 * 4 + 2];",),
    ),
    "a pointer to double is cast to int*, another type of element; convert the value: (int)v": (
        ("double v = x[i] * x[i]; y[i] = *(int*)&v * w[i] * v;",),
        ("double v = x[i] * x[i]; y[i] = (int)v * w[i] * v;",),
    ),
    "a reference to the bits of a number; write a variable, const int b = ...": (
        ("float v = w[i]; int& b = (int&)v; y[i] = b > 0 ? x[i] * x[i] : x[i];",),
        ("float v = w[i]; const int b = (int&)v; y[i] = b > 0 ? x[i] * x[i] : x[i];",),
    ),
    "More has no such members, or a base or a constructor; write its values in their order, without .name =": (
        ("More p = {.c = x[i]}; y[i] = p.c * p.c;", "struct Two { double a, b; }; struct More : Two { double c; };"),
        ("More p = {0, 0, x[i]}; y[i] = p.c * p.c;", "struct Two { double a, b; }; struct More : Two { double c; };"),
    ),
    "M has no values here; write them, or pass it as a parameter": (
        ("y[i] = x[i] * x[i] * M;", "constexpr int sum(int n) { int s = 0; while (n) s += n--; return s; }\n"
         "constexpr int M = sum(3);"),
        ("y[i] = x[i] * x[i] * M;", "constexpr int M = 6;"),
    ),
    "this pointer points into one of two arrays; write a branch for each": (
        ("const double* p = c > 1 ? x : w; y[i] = p[i] * p[i];",),
        ("if (c > 1) y[i] = x[i] * x[i]; else y[i] = w[i] * w[i];",),
    ),
    "p points into two arrays in turn; make them one, s[2][N], and let an index that changes": (
        ("double a[2], b[2]; a[0] = x[i]; b[0] = w[i]; double* p = a; for (int t = 0; t < 3; t++) { "
         "p[0] *= p[0]; if (t > c) p = b; } y[i] = p[0];",),
        ("double s[2][2]; s[0][0] = x[i]; s[1][0] = w[i]; int k = 0; for (int t = 0; t < 3; t++) { "
         "s[k][0] *= s[k][0]; if (t > c) k = 1 - k; } y[i] = s[k][0];",),
    ),
    "p is an array of pointers; choose between their elements: k == 0 ? x[i] : w[i]": (
        ("const double* p[2] = {x, w}; double v = 0; "
         "for (int k = 0; k < 2; k++) v += p[k][i] * (k + 1); y[i] = v * v;",),
        ("double v = 0; for (int k = 0; k < 2; k++) v += (k == 0 ? x[i] : w[i]) * (k + 1); y[i] = v * v;",),
    ),
    "or choose between elements, k ? v[i] : w[i]": (
        ("const double* p = x; if (c > 1) p = w; y[i] = p[i] * p[i];",),
        ("double p = c > 1 ? w[i] : x[i]; y[i] = p * p;",),
    ),
    "std::array is of C++'s library, outside the subset; write a struct or an array of numbers": (
        ("std::array<double, 2> a = {x[i], w[i]}; y[i] = a[0] * a[1];", "#include <array>"),
        ("double a[2] = {x[i], w[i]}; y[i] = a[0] * a[1];",),
    ),
    "memset sets a whole variable to 0 here; write a loop": (
        ("double a[4]; memset(a, 0, 2 * sizeof(double)); a[1] += x[i]; y[i] = a[0] + a[1] * a[1];",),
        ("double a[4]; for (int k = 0; k < 2; k++) a[k] = 0; a[1] += x[i]; y[i] = a[0] + a[1] * a[1];",),
    ),
    "[ after one variable: write v.y": (
        ("V v = {x[i], w[i], 1}; double* e = &v.x; y[i] = e[1] * e[0];", "struct V { double x, y; int k; };"),
        ("V v = {x[i], w[i], 1}; y[i] = v.y * v.x;", "struct V { double x, y; int k; };"),
    ),
    "inclusive_scan takes a tile, a number, and plus, greater or less; write another operator as shuffles: "
    "u = tile.shfl_up(v, d); if (tile.thread_rank() >= d) v = f(u, v); for d = 1, 2, 4 and so on": (
        (f"{TILE}y[i] = cg::inclusive_scan(tile, x[i], "
         "[](double a, double b) { return a * b; });", GROUPS),
        (f"{TILE}double v = x[i]; for (int d = 1; d < 32; d *= 2) {{ double u = tile.shfl_up(v, d); "
         "if (tile.thread_rank() >= d) v = u * v; } y[i] = v;", GROUPS),
    ),
    "reduce takes a tile, a number, and plus, greater, less or a lambda; write another operator as shuffles: "
    "v = f(v, tile.shfl_xor(v, d)) for d = 1, 2, 4 and so on": (
        (f"{TILE}y[i] = cg::reduce(tile, x[i], times());",
         GROUPS + "\nstruct times { __device__ double operator()(double a, double b) const { return a * b; } };"),
        (f"{TILE}double v = x[i]; for (int d = 1; d < 32; d *= 2) v = v * tile.shfl_xor(v, d); y[i] = v;", GROUPS),
    ),
    "write the values of v in braces": (
        ("double v[2] = x[i]; y[i] = v[0] * v[0];",),
        ("double v[2] = {x[i]}; y[i] = v[0] * v[0];",),
    ),
    "write a value for v: ... = ...": (
        ("double& v; y[i] = x[i];",),
        ("double& v = y[i]; v = x[i] * x[i];",),
    ),
    "write the extent of v": (
        ("double v[]; v[0] = x[i]; y[i] = v[0] * v[0];",),
        ("double v[1]; v[0] = x[i]; y[i] = v[0] * v[0];",),
    ),
    "static variables are outside the differentiable subset; leave static out": (
        ("static double v = 2; y[i] = x[i] * v;",),
        ("double v = 2; y[i] = x[i] * v * x[i];",),
    ),
    "a double is made of one value": (
        ("double v = double(x[i], w[i]); y[i] = v;",),
        ("double v = double(x[i]); y[i] = v * v;",),
    ),
    "a double has one value in braces": (
        ("double v = {x[i], w[i]}; y[i] = v;",),
        ("double v = {x[i]}; y[i] = v * v;",),
    ),
    "Pair has no constructor of 2 arguments here; write its members": (
        ("Pair p(x[i], w[i]); y[i] = p.a * p.b;", PAIR),
        ("Pair p; p.a = x[i]; p.b = w[i]; y[i] = p.a * p.b;", PAIR),
    ),
    "& takes a variable or an element": (
        ("const double* p = &(x[i] * 2); y[i] = *p;",),
        ("double v = x[i] * 2; const double* p = &v; y[i] = *p * *p;",),
    ),
    "the condition of this if constexpr is not known here; write if": (
        ("if constexpr (sizeof(*x) + n > 4) y[i] = x[i] * x[i]; else y[i] = x[i];",),
        ("if (sizeof(*x) + n > 4) y[i] = x[i] * x[i]; else y[i] = x[i];",),
    ),
    "'double' outside functions: make it __constant__, or a parameter": (
        ("y[i] = x[i] * g;", "__device__ double g;"),
        ("y[i] = x[i] * x[i] * g;", "__constant__ double g = 2.0;"),
    ),
    "this condition is no expression of whole numbers and macros; write the number of a character": (
        ("y[i] = x[i] * A;", "#if 'a' == 97\n#define A x[i]\n#endif"),
        ("y[i] = x[i] * CODE;", "#if 97 == 97\n#define CODE x[i]\n#endif"),
    ),
    "holds an array of structs; pass that as an array of its own": (
        ("y[i] = b[0].p[0].a * x[i];", f"{PAIR} struct Box {{ Pair p[2]; }};", f"{PARAMS}, const Box* b"),
        ("y[i] = x[i] * x[i];", PAIR),
    ),
    "the number of threads of a tile is not known here; write 4, 8, 16 or 32": (
        ("auto g = cg::tiled_partition(cg::this_thread_block(), n); y[i] = x[i] * x[i] * g.thread_rank();", GROUPS),
        ("auto g = cg::tiled_partition(cg::this_thread_block(), 8); y[i] = x[i] * x[i] * g.thread_rank();", GROUPS),
    ),
    "a conversion to Pair is outside the subset; write its members": (
        ("Pair p; p = x[i]; y[i] = p.a;", PAIR),
        ("Pair p; p.a = x[i]; p.b = x[i]; y[i] = p.a * p.b;", PAIR),
    ),
    "is a function of CUDA, and one of a namespace here; give that one a name of its own": (
        ("y[i] = sin(x[i]);", "namespace m { __device__ double sin(double v) { return v * v; } } using m::sin;"),
        ("y[i] = square(x[i]) * x[i];",
         "namespace m { __device__ double square(double v) { return v * v; } } using m::square;"),
    ),
    "write the values of a in braces": (
        ("double b[2] = {x[i], w[i]}; double a[] = b; y[i] = a[0];",),
        ("double b[2] = {x[i], w[i]}; double a[] = {b[0], b[1]}; y[i] = a[0] * a[1];",),
    ),
    "write the values of q in braces": (
        ("Pair p = {x[i], w[i]}; Pair q[] = p; y[i] = q[0].a;", PAIR),
        ("Pair p = {x[i], w[i]}; Pair q[] = {p}; y[i] = q[0].a * q[0].b;", PAIR),
    ),
    "write the elements of q in braces of their own": (
        ("Pair p = {x[i], w[i]}; Pair q[2] = p; y[i] = q[0].a;", PAIR),
        ("Pair p = {x[i], w[i]}; Pair q[2] = {p}; y[i] = q[0].a * q[0].b;", PAIR),
    ),
    "must be a type or an expression in parentheses, of numbers and macros ahead of it": (
        ("y[i] = x[i] * THREE;", "#define THREE 1 2"),
        ("y[i] = x[i] * x[i] * TRIPLE;", "#define TRIPLE (1 + 2)"),
    ),
    "std::numeric_limits<signed char>::max is not known here; write its value": (
        ("y[i] = x[i] * std::numeric_limits<char>::max();", "#include <limits>"),
        ("y[i] = x[i] * x[i] * 127;",),
    ),
    "the member v is an array; copy it element by element": (
        ("Many a; for (int k = 0; k < 40; k++) a.v[k] = x[i] * k; Many b = a; y[i] = b.v[3];",
         "struct Many { double v[40]; };"),
        ("Many a; for (int k = 0; k < 40; k++) a.v[k] = x[i] * k; Many b; for (int k = 0; k < 40; k++) b.v[k] = "
         "a.v[k]; y[i] = b.v[3] * a.v[2];",
         "struct Many { double v[40]; };"),
    ),
    "s has 2 axes; a pointer goes along its last axis alone": (
        ("__shared__ double s[2][32]; s[0][i] = x[i]; s[1][i] = 2; __syncthreads(); double* p = s; y[i] = p[i];",),
        ("__shared__ double s[2][32]; s[0][i] = x[i]; s[1][i] = 2; __syncthreads(); double* p = s[0]; y[i] = p[i] * "
         "p[31 - i];",),
    ),
    "a pointer to a pointer is outside the subset; pass the array": (
        ("y[i] = twice(nullptr, x[i]);",
         "__device__ double twice(const double** p, double v) { return p ? v : 2 * v; }"),
        ("y[i] = twice2(x, i) * x[i];", "__device__ double twice2(const double* p, int i) { return 2 * p[i]; }"),
    ),
    "__ballot_sync has no derivative rule here, and is no __device__ function; exchange whole numbers by shuffles: "
    "k |= __shfl_xor_sync(mask, k, d) for d = 1, 2, 4 and so on": (
        ("unsigned b = __ballot_sync(~0u, x[i] > 1.2); y[i] = x[i] * __popc(b);",),
        ("unsigned k = (unsigned)(x[i] > 1.2) << i; for (int d = 1; d < 32; d *= 2) k |= __shfl_xor_sync(~0u, k, d); "
         "y[i] = x[i] * x[i] * __popc(k) * (k >> 31 - i & 1);",),
    ),
    "__any_sync has no derivative rule here, and is no __device__ function; exchange whole numbers by shuffles": (
        ("double v = x[i]; for (int r = 0; r < 4; r++) if (__any_sync(~0u, v > 4)) v *= 0.5; else v *= v; y[i] = v;",),
        ("double v = x[i]; for (int r = 0; r < 4; r++) { int k = v > 4; for (int d = 1; d < 32; d *= 2) "
         "k |= __shfl_xor_sync(~0u, k, d); if (k) v *= 0.5; else v *= v; } y[i] = v;",),
    ),
}  # fmt: skip


ADVICE |= adjoint_advice.ADVICE
# kernels that need no advice: the exchanges of a sort; rows in a part of an array; the turns of loops in loops
ACCEPTED = [
    "__shared__ double s[32]; s[i] = x[i] * w[i]; __syncthreads(); "
    "for (int k = 2; k <= 32; k *= 2) for (int j = k / 2; j > 0; j /= 2) { int l = i ^ j; if (l > i) { "
    "bool up = (i & k) == 0; if ((s[i] > s[l]) == up) { double t = s[i]; s[i] = s[l]; s[l] = t; } } "
    "__syncthreads(); } y[i] = s[i] * s[i] * (i + 1);",
    "__shared__ double s[64]; for (int r = 0; r < n; r++) { s[i] = x[(i + r) % 32] * x[i]; __syncthreads(); "
    "for (int o = 16; o > 0; o >>= 1) { if (i < o) s[i] += s[i + o] * s[i] * 0.1; __syncthreads(); } "
    "if (i == 0) y[r] = s[0]; __syncthreads(); }",
    "__shared__ double s[64]; for (int r = 0; r < 3; r++) { s[i] = x[(i + r) % 32]; __syncthreads(); "
    "for (int o = 1; o < 32; o <<= 1) { double v = i >= o ? s[i - o] : 1; __syncthreads(); s[i] *= v * 0.9; "
    "__syncthreads(); } y[i] += s[i] * w[i]; __syncthreads(); }",
    "for (int r = 0; r < 3; r++) { for (int j = 1; j <= (r + 1) * 2; j *= 3) m[i] = m[i] * x[j] * 0.3 + w[i] * r; "
    "for (int j = r; j > 0; j >>= 1) { if (j == 2) continue; m[i] *= m[i] * w[j]; } } y[i] = m[i];",
    "double a = 1; int k = 0; for (int j = 0; j < 4; j += c) { a = a * x[j] + k; if (++k == 6) break; } "
    "y[i] = a * w[i];",
    "dim3 t = threadIdx, d(2); uint3 b = blockDim; y[t.x] = x[t.x] * w[b.x - t.x - d.z] * d.x;",
]  # fmt: skip


@pytest.mark.parametrize("sentence", ADVICE)
def test_a_kernel_is_refused(sentence):
    refused, followed = ADVICE[sentence]
    with pytest.raises(NotDifferentiable, match=rf"^f.cu:\d+:\d+: .*{re.escape(sentence)}"):
        mg.adjoint(kernel(*refused), name="f")
    assert mg.adjoint(kernel(*followed), name="f").wrt


TOGETHER = [followed for _, followed in ADVICE.values() if "return;" not in followed[0]] + [(one,) for one in ACCEPTED]
PARTS = 6  # kernels to be compiled


@pytest.mark.parametrize("part", range(PARTS))
def test_the_advice_works(part):
    """The gradients of kernels that follow the advice against central differences, many of them in one text."""
    bodies = TOGETHER[part::PARTS]
    ahead = dict.fromkeys(line for _, *more in bodies for line in more)
    texts = (re.sub(r"\b([ymh])\[", rf"\1[{32 * at} + ", body) for at, (body, *_) in enumerate(bodies))
    text = kernel("\n".join(f"{{ {body} }}" for body in texts), "\n".join(ahead))
    made, random = mg.adjoint(text, name="f", wrt=("x", "w", "m")), np.random.default_rng(0)
    x, w, m, dy = (random.random(n) / 2 + 1 for n in (32, 32, 32 * len(bodies), 32 * len(bodies)))
    given, primal = {"x": x, "w": w, "m": m}, mg.kernel(text, "f")

    def launch(**changed):
        x, w, m = (np.copy({**given, **changed}[name]) for name in given)
        return x, w, np.zeros_like(m), 8, 1, m, np.full(m.shape, 2, np.int32), np.arange(128, dtype=np.float32)

    def value(**changed):
        args = [mg.tensor(a, device="sim") if isinstance(a, np.ndarray) else a for a in launch(**changed)]
        primal(*args, grid=1, block=32)
        return args[2].numpy() * dy

    way = {name: random.random(a.size) for name, a in given.items()}
    slopes = {name: (value(**{name: given[name] + 1e-6 * v}) - value(**{name: given[name] - 1e-6 * v})) / 2e-6
              for name, v in way.items()}  # fmt: skip
    for at in range(len(bodies)):
        own = np.arange(m.size) // 32 == at
        gradients = made.vjp(
            *launch(), dy=[dy * own if name == "y" else None for name in made.outputs], grid=1, block=32
        )
        found = [gradient @ way[name] for name, gradient in zip(made.wrt, gradients, strict=True)]
        want = [slopes[name] @ own for name in made.wrt]
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-7, err_msg=bodies[at][0])


CONDITIONS = ["0x10 == 16", "010 == 8", "!1 == 0", "!(3 > 2 > 1)", "(6 & 3 == 3) == 0", "-7 / 2 == -3", "-7 % 3 == -1",
              "1 || 1 / 0", "2 + 3 * 4 << 1 == 28", "(2 && 3) == 1", "1 - 1 - 1 == -1", "~0 == -1 && !unknown",
              "defined(A) + defined B == 0", "16UL >= 0x10L", "(5 ^ 1 | 8) == 12"]  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_of_the_preprocessor(condition):
    made = mg.adjoint(kernel("y[i] = x[i] * A;", f"#if {condition}\n#define A w[i]\n#else\n#define A x[i]\n#endif"))
    assert made.wrt == ("x", "w")


@pytest.mark.parametrize("condition", ["~0u > 0", "'a' == 97", "1.5 > 1", "(1 == 1", "1 = 1", "1 ? 1 : 0", "<", ""])
def test_other_conditions_are_refused(condition):
    with pytest.raises(NotDifferentiable, match=r"^f.cu:1:1: this condition is no expression of whole numbers"):
        mg.adjoint(kernel("y[i] = x[i] * x[i];", f"#if {condition}\n#endif"), name="f")
