"""Structs, half and bfloat16 as parameters of kernels."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import LaunchError

pytestmark = pytest.mark.filterwarnings("ignore:nobody sets")
NODES = """#define REAL float
typedef struct { int id; double weight; REAL v[3]; char tag; } Node;
struct Box { short kind; Node node; unsigned char flags[2]; __device__ int twice() const { return 2 * kind; } };
struct P { float scale; int n; };
extern "C" __global__ void nodes(Node* g, P p, const Box* boxes) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.n) {
        g[i].weight = p.scale * g[i].id + g[i].v[2] + boxes[i].node.v[1];
        g[i].tag = boxes[i].twice() + boxes[i].flags[1];
    }
}
"""
NODE = np.dtype([("id", "i4"), ("weight", "f8"), ("v", "f4", 3), ("tag", "i1")], align=True)
BOX = np.dtype([("kind", "i2"), ("node", NODE), ("flags", "u1", 2)], align=True)
P = np.dtype([("scale", "f4"), ("n", "i4")])


def arrays():
    nodes, boxes = np.zeros(5, NODE), np.zeros(5, BOX)
    nodes["id"], nodes["v"], boxes["kind"] = range(5), 0.5, range(5)
    boxes["node"]["v"], boxes["flags"] = 0.25, (9, 3)
    return nodes, boxes


def test_arrays_of_structs_and_structs_by_value(kernel_device):
    nodes, boxes = arrays()
    g, kernel = mg.tensor(nodes, device=kernel_device), mg.kernel(NODES, "nodes")
    kernel(g, np.array((3, 5), P), mg.tensor(boxes, device=kernel_device), grid=1, block=8)
    got = g.numpy()
    assert got["weight"].tolist() == [3 * i + 0.75 for i in range(5)] and got["tag"].tolist() == [3, 5, 7, 9, 11]
    assert (got["v"] == 0.5).all() and got["id"].tolist() == [*range(5)]


def test_the_microscope_takes_structs():
    nodes, boxes = arrays()
    assert mg.inspect(NODES, nodes, np.array((3, 5), P), boxes, grid=1, block=8).problems == []
    assert nodes["weight"][1] == 3.75


TEMPLATES = """#include <type_traits>
template <typename T, int N> struct alignas(sizeof(T) * N) Pack { T v[N]; };
template <typename T> struct vec4;
template <> struct vec4<float> { typedef float4 Type; };
template <> struct vec4<double> { typedef double4 Type; };
template <typename T> struct Args { const T* in; T* out; int n, m; };
template <typename T, int N> __global__ void packs(Pack<T, N>* x, Pack<T, N> by) {
    for (int i = 0; i < N; ++i) x[threadIdx.x].v[i] *= by.v[i];
}
template <typename T> __global__ void second(const typename vec4<T>::Type* x, T* y) {
    y[threadIdx.x] = x[threadIdx.x].y;
}
__global__ void scaled(Args<float> p) { if (threadIdx.x < p.n) p.out[threadIdx.x] = p.m * p.in[threadIdx.x]; }
template <bool Twice> __global__ void flagged(float* x, std::bool_constant<Twice>) { x[threadIdx.x] *= 1 + Twice; }
"""


def test_templates_of_structs_as_parameters(kernel_device):
    pair = np.dtype([("v", "f4", 2)])
    x = mg.tensor(np.array([([1, 2],), ([3, 4],)], pair), device=kernel_device)
    mg.kernel(TEMPLATES, "packs<float, 2>")(x, np.array(([10, 100],), pair), grid=1, block=2)
    assert x.numpy()["v"].tolist() == [[10, 200], [30, 400]]
    for kind, dtype in (("float", np.float32), ("double", np.float64)):
        x, y = (mg.tensor(np.arange(n, dtype=dtype), device=kernel_device) for n in (8, 2))
        mg.kernel(TEMPLATES, f"second<{kind}>")(x, y, grid=1, block=2)
        assert y.numpy().tolist() == [1, 5]
    x, y = (mg.tensor(np.arange(4, dtype=np.float32), device=kernel_device) for _ in range(2))
    mg.kernel(TEMPLATES, "scaled")({"in": x, "out": y, "n": 3, "m": 5}, grid=1, block=4)
    assert y.numpy().tolist() == [0, 5, 10, 3]
    mg.kernel(TEMPLATES, "flagged<true>")(x, {}, grid=1, block=4)
    assert x.numpy().tolist() == [0, 2, 4, 6]


def test_extents_by_enums_bases_and_parameters_without_a_plain_constructor(kernel_device):
    text = """enum { SIDES = 3, MORE };
struct Nothing {};
struct Box : public Nothing { float side[SIDES]; int n[MORE][2]; };
struct Power { int of; __device__ Power(int of) : of(of) {} };
__global__ void k(Box b, Power p, float* x) { x[0] = b.side[2] + b.n[3][1] + p.of; }"""
    box = np.zeros((), [("side", "f4", 3), ("n", "i4", (4, 2))])
    box["side"][2], box["n"][3, 1] = 10, 100
    x = mg.tensor(np.zeros(1, np.float32), device=kernel_device)
    mg.kernel(text, "k")(box, np.array((1,), [("of", "i4")]), x, grid=1, block=1)
    assert x.item() == 111


@pytest.mark.parametrize(
    "dtype",
    [
        np.dtype([("id", "i4"), ("weight", "f8"), ("v", "f4", 3), ("tag", "i1")]),  # not padded
        np.dtype([("weight", "f8"), ("id", "i4"), ("v", "f4", 3), ("tag", "i1")], align=True),
        np.dtype([("id", "i4"), ("weights", "f8"), ("v", "f4", 3), ("tag", "i1")], align=True),
        np.dtype([("id", "i4"), ("weight", "f4"), ("v", "f4", 3), ("tag", "i1")], align=True),
        np.dtype([("id", "i4"), ("weight", "f8"), ("v", "f4", 4), ("tag", "i1")], align=True),
        np.dtype("float32"),
    ],
)
def test_a_dtype_that_does_not_fit_is_told_the_one_that_does(dtype):
    _, boxes = arrays()
    with pytest.raises(
        TypeError, match=r"argument 1 \(Node\* g\): got .*, which is not Node; that is (np\..*)\.$"
    ) as caught:
        mg.inspect(NODES, np.zeros(5, dtype), np.array((3, 5), P), boxes, grid=1, block=8)
    wanted = str(caught.value).partition("that is ")[2].rstrip(".")
    assert eval(wanted, {"np": np}) == NODE


@pytest.mark.parametrize("head", ["union Word {", "typedef union {"])
def test_members_of_a_union_begin_together(head, kernel_device):
    text = f"{head} unsigned whole; unsigned char bytes[4]; double number; }}{' Word' * ('typedef' in head)};"
    text += "__global__ void k(Word* w, Word one) { w[0].whole = w[1].bytes[1] + one.whole; }"
    formats = {"names": ["whole", "bytes", "number"], "formats": ["u4", ("u1", 4), "f8"], "offsets": [0, 0, 0]}
    words = np.zeros(2, np.dtype(formats | {"itemsize": 8}))
    words["whole"] = 5, 0x0700
    w = mg.tensor(words, device=kernel_device)
    mg.kernel(text, "k")(w, words[0], grid=1, block=1)
    assert w.numpy()["whole"].tolist() == [12, 0x0700]


POINTERS = """typedef struct { double re, im; } Window;  // a name that the package has, too
struct Data { int n; double *x, *y; const int* at; Window* poles; struct Data* next; float scale[2]; };
__global__ void k(Data d, double* out) {
    int i = threadIdx.x;
    if (i < d.n) d.y[i] = out[i] = d.x[d.at[i]] * d.scale[1] + d.poles[i].im + (d.next != nullptr);
}
__global__ void several(const Data* d, double* out) { out[0] = d->x[0]; }
"""


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ("float* a[3];", r"float \* a\[3\]"),
        ("float** pp;", r"float \*\* pp"),
        ("float (*a)[3];", r"float \(\*a\)\[3\]"),
        ("int (*a)(int);", r"int \(\*a\)\(int\)"),
        ("int b, *c, &d;", "int &d"),
    ],
)
def test_pointers_to_anything_but_numbers_and_structs_are_refused_by_name(members, words):
    kernel = mg.kernel(f"struct D {{ int n; {members} }}; __global__ void k(D* d, int* y) {{ y[0] = d->n; }}", "k")
    with pytest.raises(LaunchError, match=f"the layout of '{words}' is not read here. Pointers in a struct lead to"):
        kernel([{"n": 1}], mg.zeros(1, dtype="int32", device="sim"), grid=1, block=1)


def test_a_struct_with_pointers_is_given_by_its_members(kernel_device):
    x, at = np.arange(4.0), np.int32([3, 2, 1, 0])
    poles = np.array([(1, 10), (2, 20), (3, 30), (4, 40)], [("re", "f8"), ("im", "f8")])
    data = {"n": 4, "x": x, "y": 0 * x, "at": at, "poles": poles, "scale": (0, 2)}
    data = {name: mg.tensor(v, device=kernel_device) if isinstance(v, np.ndarray) else v for name, v in data.items()}
    kernel, out = mg.kernel(POINTERS, "k"), mg.tensor(0 * x, device=kernel_device)
    kernel(data, out, grid=1, block=8)
    assert out.numpy().tolist() == data["y"].numpy().tolist() == [16, 24, 32, 40]
    for wrong, words in (
        ({"m": 4}, "has no member 'm'; it has n, x, y, at, poles, next, scale"),
        ({"x": at}, "its member x is a pointer and takes a tensor; got ndarray"),
        ({"x": data["at"]}, "its member x is float64; got int32"),
    ):
        with pytest.raises(TypeError, match=words):
            kernel(data | wrong, out, grid=1, block=8)
    with pytest.raises(LaunchError, match=r"Data holds the pointer x; give a list .*, \[\{'x': tensor, \.\.\.\}"):
        mg.kernel(POINTERS, "several")(out, out, grid=1, block=1)


RAGGED = """struct Row { float* x; const int* at; int n; float scale[2]; };
__global__ void f(Row* rows, float* out, int count) {
    int i = threadIdx.x;
    for (int r = 0; r < count; ++r) if (i <= rows[r].n) rows[r].x[i] *= rows[r].scale[1];
    __syncthreads();
    if (i < count) out[i] = rows[i].x[rows[i].at[0]];
}
"""


def test_an_array_of_structs_with_pointers_is_a_list_of_their_members(kernel_device):
    x, at = [np.arange(1.0, n + 1, dtype=np.float32) for n in (4, 2)], [np.int32([n]) for n in (2, 1)]
    rows = [{"x": x[n], "at": at[n], "n": len(x[n]) - 1, "scale": (0, n + 2)} for n in range(2)]
    kernel, out = mg.kernel(RAGGED, "f"), mg.zeros(2, device=kernel_device)
    there = [{k: mg.tensor(v, device=kernel_device) if isinstance(v, np.ndarray) else v for k, v in row.items()}
             for row in rows]  # fmt: skip
    kernel(there, out, 2, grid=1, block=8)
    assert out.numpy().tolist() == [6, 6]
    assert [row["x"].numpy().tolist() for row in there] == [[2, 4, 6, 8], [3, 6]]
    rows[1]["n"] = 2
    problem, *_ = mg.inspect(kernel, rows, np.zeros(2, np.float32), 2, grid=1, block=8).problems
    assert problem.kind == "out-of-bounds" and problem.variable == "rows[1].x" and problem.line == 4
    assert [row["x"].tolist() for row in rows] == [[2, 4, 6, 8], [3, 6]]
    rows[1]["n"] = 1
    record = mg.inspect(kernel, rows, np.zeros(2, np.float32), 2, grid=1, block=8)
    assert not record.problems and record.outputs["rows[1].x"].tolist() == [9, 18]
    for wrong, words in (
        ([1, 2], r"takes a list with the members of each struct"),
        ([there[0], {"y": 1}], r"rows\[1\] has no member 'y'; it has x, at, n, scale"),
        ([{"n": 1}], r"none of these structs points to a tensor"),
    ):
        with pytest.raises(TypeError, match=words):
            kernel(wrong, out, 2, grid=1, block=8)


def test_the_microscope_sees_arrays_behind_the_pointers_of_a_struct():
    data = {"n": 5, "x": np.zeros(5), "y": np.zeros(4), "at": np.zeros(5, np.int32), "scale": (1, 1)}
    data["poles"] = np.zeros(5, [("re", "f8"), ("im", "f8")])
    (problem,) = mg.inspect(POINTERS, data, np.zeros(5), name="k", grid=1, block=8).problems
    assert (problem.kind, problem.variable, problem.line) == ("out-of-bounds", "d.y", 5)
    data |= {"n": 4, "x": np.arange(5.0), "scale": (1, 2)}
    record = mg.inspect(POINTERS, data, np.zeros(5), name="k", grid=1, block=8)
    assert not record.problems and {"d.x", "d.y", "d.at", "d.poles", "out"} == {line.variable for line in record.lines}
    assert data["y"].tolist() == record.outputs["d.y"].tolist() == [0, 0, 0, 0]


NESTED = """struct In { float* x; int n; };
struct P { In in[2]; float* y; };
union U { float* x; double d; int n; };
__global__ void k(P p, U u, U* several) { p.y[0] = p.in[0].x[0] + p.in[1].x[1] + p.in[1].n + u.x[1] + several[1].x[0]; }
"""


def test_pointers_in_arrays_of_structs_and_in_unions(kernel_device):
    a, b, y = np.array([1, 2], "f4"), np.array([30, 40], "f4"), np.zeros(1, "f4")
    given = {"in": [{"x": a}, {"x": b, "n": 5}], "y": y}, {"x": a}, [{"d": 1.5}, {"x": b}]
    record = mg.inspect(NESTED, *given, grid=1, block=1)
    assert not record.problems and y[0] == record.outputs["p.y"][0] == 1 + 40 + 5 + 2 + 30
    assert {"p.in[0].x", "p.in[1].x", "p.y", "u.x", "several[1].x"} <= record.outputs.keys()
    one, two, out = (mg.tensor(each, device=kernel_device) for each in (a, b, 0 * y))
    kernel = mg.kernel(NESTED, "k")
    kernel({"in": ({"x": one}, {"x": two}), "y": out}, {"x": one}, [{"x": one}, {"x": two}], grid=1, block=1)
    assert out.numpy()[0] == 1 + 40 + 2 + 30
    leaf = mg.tensor(a, device=kernel_device, requires_grad=True)
    with pytest.raises(RuntimeError, match="k changes a tensor that requires a gradient, in place"):
        kernel({"in": ({"x": leaf}, {"x": two}), "y": out}, {"x": one}, [{"x": one}, {"x": two}], grid=1, block=1)
    with pytest.raises(TypeError, match=r"its member in is an array of 2 structs; got 1\."):
        kernel({"in": [{"x": one}], "y": out}, {"x": one}, [{"x": one}, {"x": two}], grid=1, block=1)
    for number, words in ((1.5, "float 1.5 does not fit into int32"), (2**40, "does not fit into int32")):
        with pytest.raises(TypeError, match=words):
            kernel({"in": [{"n": number}, {}]}, {"x": one}, [{"x": one}, {}], grid=1, block=1)


def test_a_struct_by_value_is_one_value_of_its_dtype():
    nodes, boxes = arrays()
    with pytest.raises(
        TypeError, match=r"takes one P; give its members, .*, or a record of np\.dtype\(.*align=True\)\."
    ):
        mg.inspect(NODES, nodes, 3, boxes, grid=1, block=8)


SMALL = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
typedef __nv_bfloat16 floatX;
extern "C" __global__ void halves(const half* x, __half* y, half2* z, half factor, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    half a = __hmul(x[i], factor);
    y[i] = a > __float2half(2.0f) ? __hadd(a, x[i]) : __hfma(a, a, x[i]);
    half2 two = __floats2half2_rn(i, __half2float(x[i]));
    z[i] = two * __half2half2(factor) + two;
}
extern "C" __global__ void brains(const floatX* x, floatX* y, int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = __hadd(x[i], __float2bfloat16(0.1f)) * x[i];
}
extern "C" __global__ void convert(const float* x, __half* y, floatX* z, float* back, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        y[i] = __float2half(x[i]), z[i] = __float2bfloat16(x[i]);
        back[i] = __half2float(y[i]);
    }
}
"""


def test_half_is_rounded_after_each_operation(kernel_device):
    x = np.linspace(-3, 3, 61).astype(np.float16)
    y, z = (mg.tensor(np.zeros(size, np.float16), device=kernel_device) for size in (61, 122))
    factor = np.float16(1.7)
    mg.kernel(SMALL, "halves")(mg.tensor(x, device=kernel_device), y, z, 1.7, 61, grid=1, block=64)
    a = x * factor
    fused = (a.astype(np.float64) ** 2 + x).astype(np.float16)
    assert (y.numpy() == np.where(a > 2, a + x, fused)).all()
    two = np.stack([np.arange(61).astype(np.float16), x], 1)
    # A GPU may compute a product and a sum of half2 as one instruction, with one rounding.
    at_once = (two.astype(np.float64) * factor + two).astype(np.float16)
    z = z.numpy().reshape(61, 2)
    assert ((z == two * factor + two) | ((z == at_once) & (kernel_device == "cuda"))).all()


def test_half_is_rounded_to_the_side_that_is_asked_for():
    x = np.concatenate([np.linspace(-3, 3, 200), np.linspace(-1e-6, 1e-6, 200), [0, 65504, 65519, 1e6, -1e6, 1e-12]])
    x = x.astype(np.float32)
    text = """#include <cuda_fp16.h>
__global__ void k(const float* x, half* down, half* up, half* cut) {
    int i = threadIdx.x;
    down[i] = __float2half_rd(x[i]), up[i] = __float2half_ru(x[i]), cut[i] = __float2half_rz(x[i]);
}"""
    given = [mg.tensor(np.zeros(len(x), np.float16), device="sim") for _ in range(3)]
    mg.kernel(text, "k")(mg.tensor(x, device="sim"), *given, grid=1, block=len(x))
    with np.errstate(over="ignore"):
        near = x.astype(np.float16)
        down = np.where(near.astype(np.float64) > x, np.nextafter(near, np.float16(-np.inf)), near)
        up = np.where(near.astype(np.float64) < x, np.nextafter(near, np.float16(np.inf)), near)
    for got, wanted in zip(given, (down, up, np.where(x > 0, down, up)), strict=True):
        assert (got.numpy() == wanted).all()


def test_bounded_arithmetic_and_comparisons_of_pairs_of_halves(kernel_device):
    text = """#include <cuda_fp16.h>
__global__ void k(half2 a, half2 b, float* y) {
    half2 sum = __hadd2_sat(a, b), rest = __hfma2_relu(a, b, __hneg2(b));
    y[0] = sum.x, y[1] = sum.y, y[2] = rest.x, y[3] = rest.y;
    y[4] = __hbeq2(a, a), y[5] = __hbeq2(a, b), y[6] = __hblt2(a, b), y[7] = __hsub_sat(a.x, b.x);
}"""
    y = mg.tensor(np.zeros(8, np.float32), device=kernel_device)
    a, b = np.array([0.75, -2], np.float16), np.array([1.5, 0.25], np.float16)
    mg.kernel(text, "k")(a, b, y, grid=1, block=1)
    assert y.numpy().tolist() == [1, 0, 0, 0, 1, 0, 1, 0]


def test_bfloat16_of_the_header(kernel_device):
    x = mg.tensor(np.linspace(-3, 3, 61).astype(np.float32), dtype="bfloat16").numpy()
    y = mg.tensor(np.zeros(61, x.dtype), device=kernel_device)
    mg.kernel(SMALL, "brains")(mg.tensor(x, device=kernel_device), y, 61, grid=1, block=64)
    assert (y.numpy() == (x + x.dtype.type(0.1)) * x).all()


def test_conversions_round_to_the_nearest():
    with np.errstate(over="ignore"):
        every = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
        middle = (every[:-1] + every[1:]) / 2  # ties, and their neighbors
        x = np.concatenate([every, middle, np.nextafter(middle, 0), np.nextafter(middle, 1e6), -middle])
        x = np.concatenate([x, [65519.9, 65520, 1e-8, 2.0**-25, 1e38, np.inf, np.nan]]).astype(np.float32)
        wanted = x.astype(np.float16)
    brain = mg.tensor(x, dtype="bfloat16").numpy()
    y, z, back = np.zeros_like(wanted), np.zeros_like(brain), np.zeros_like(x)
    args = [mg.tensor(each, device="sim") for each in (x, y, z, back)]
    mg.kernel(SMALL, "convert")(*args, x.size, grid=1, block=256)
    np.testing.assert_array_equal(args[1].numpy(), wanted)
    np.testing.assert_array_equal(args[2].numpy().astype(np.float32), brain.astype(np.float32))
    np.testing.assert_array_equal(args[3].numpy(), wanted.astype(np.float32))


GIVEN = [  # a struct, an expression of p, the members given, and its value or the words of an error
    ("struct S { float dt = 0.5f; int n{3}, m = -2; };", "p.dt * 1000 + p.n * 100 + p.m", {}, 798),
    ("struct S { float dt = 0.5f; int n{3}, m = -2; };", "p.dt * 1000 + p.n * 100 + p.m", {"n": 1}, 598),
    ("struct S { int t[3] = {1, 2}; bool b = true; float* q = nullptr; };", "p.t[1] * 10 + p.t[2] + p.b", {}, 21),
    ("struct A { float v = 2.f; }; struct S : A { unsigned n = 0x10u; A a, b[2]; };",
     "p.v * 100 + p.n + p.a.v * 1000 + p.b[1].v * 10000", {}, 22216),
    ("struct S { float a = sizeof(int); };", "p.a", {}, r"S gives a a value of its own, a = sizeof\(int\); give one"),
    ("struct S { float a = sizeof(int); };", "p.a", {"a": 1}, 1),
    ("struct S { float h, q; S() : h(2), q{1} {} explicit S(float a, float b = 2) : h(a), q{b} {} };", "p.h", {},
     "S gives h a value of its own, in a constructor; give one"),
    ("struct S { float h, q; S() : h(2), q{1} {} explicit S(float a, float b = 2) : h(a), q{b} {} };",
     "p.h + p.q", {"h": 1, "q": 4}, 5),
    ("struct S { float h, q; __device__ S() {} };", "p.h + p.q", {"h": 1}, 1),
    ("struct S { float a = 1, q; S() noexcept(true) : a(3) {} };", "p.a", {"q": 1}, "a value of its own, in a constr"),
    ("struct A { float v; A() : v(2) {} }; struct S : A { float a = 3; };", "p.v + p.a", {"v": 1}, 4),
    ("enum class E { X, Y = 2 }; struct S { E e = E::Y; };", "(int)p.e", {}, "e = E::Y; give one here"),
    ("struct S { int c = 'x'; };", "p.c", {}, "S gives c a value of its own; give one here"),
    ("struct S { unsigned a = -1; unsigned char b = 300; int c = 010, d = -0b101; };",
     "(p.a == ~0u) * 1000 + p.b * 10 + p.c + p.d", {}, 1443),
    ("#define HD(T) __device__ __host__ T\nstruct S { HD(float) two() const; float h; };\n"
     "__device__ float S::two() const { return 2 * h; }", "p.two()", {"h": 4}, 8),
    ("#define HD(T) __device__ __host__ T\nstruct S { HD(float) two() const { return 2 * h; } float h; };",
     "p.two()", {"h": 4}, 8),
    ("struct A { float v = 2; int m[2] = {1, 3}; }; struct S { int q; A a{}, b = A(), c[2] = {}; };",
     "p.q + p.a.v * 10 + p.b.m[1] * 100 + p.c[1].m[0] * 1000", {"q": 1}, 1321),
    ("namespace p { const int N = 5; struct S { int a = N; }; } namespace q { enum { N = 1 }; } using p::S;",
     "p.a", {}, 5),
    ("struct S { int q, a = N; static constexpr int N{5}; }; constexpr int N = 7;", "p.a", {"q": 1}, 5),
    ("constexpr int N = 3; namespace p { struct S { int a = N; }; constexpr int N = 4; } using p::S;", "p.a", {}, 3),
    ("constexpr int N = 5; namespace p { constexpr float N = 1.5f; struct S { float a = N; }; } using p::S;",
     "p.a", {}, "a = N; give one"),
    ("constexpr int N = 7; struct A { enum { N = 2 }; }; struct S : A { int a = N; };", "p.a", {}, "a = N; give one"),
    ("namespace q { enum { N = 1 }; } const int N = 5; namespace p { using q::N; struct S { int a = N; }; }\n"
     "using p::S;", "p.a", {}, "a = N; give one"),
    ("enum class E { N = 5 }; constexpr int M = 1, N = 2; struct S { int a = N; };", "p.a", {}, 2),
]  # fmt: skip


@pytest.mark.parametrize("declared, value, given, wanted", GIVEN)
def test_members_that_are_not_given_have_the_values_of_the_text(declared, value, given, wanted, kernel_device):
    k = mg.kernel(f"{declared}\n__global__ void k(S p, float* y) {{ y[0] = {value}; }}", "k")
    y = mg.zeros(1, device=kernel_device)
    if isinstance(wanted, str):
        with pytest.raises(TypeError, match=wanted):
            k(given, y, grid=1, block=1)
    else:
        k(given, y, grid=1, block=1)
        assert y.item() == wanted
