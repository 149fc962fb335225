"""Random kernels that write one index in several ways: other names, 0 added, casts, pointers, references, overlaps."""

import random

BLOCK = 8
N = 2 * BLOCK  # threads
HEAD = "const double* x, const int* k, const double* w, double a, double* z, double* y, double* o, int n, "
HEAD += "int zero, int one"
FUNCTIONS = """\
#define N 16
#define SAME(v) (v)
__device__ int same(int v) { return v; }
template <typename T> __device__ T plus_none(T v) { return v + 0; }
__device__ double at(const double* p, int v) { return p[v]; }
__device__ double first(const double* p) { return *p; }
__device__ double squared(const double& v) { return v * v; }
__device__ void put(double* p, int v, double s) { p[v] = s; }
__device__ void scale(double& v, double s) { v *= s; }
__device__ void both(double& u, double& v) { u *= v; v = 0.5 * u; }
"""
NAMES = (
    "int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;",
    "int j = i, l = t, e = 0; const int f = i; unsigned u = i; short h = i; size_t g = i; unsigned char b = t;",
    "e += i; int& r = j; int m = 2 * i, c = 0, d = n - N, back = N - 1 - i; double v0 = x[i], v1 = 0.3, v2 = a;",
)
OF_GRID = (
    "i", "j", "e", "f", "u", "h", "g", "r", "i + 0", "(int)i", "(size_t)i", "2 * i - i", "m - i", "m / 2", "i + d",
    "i + zero", "i * one", "N - 1 - back", "same(i)", "plus_none(i)", "SAME(i)", "i & 15", "i % N", "(i << 1) >> 1",
    "blockIdx.x * blockDim.x + threadIdx.x", "i < 3 ? j : i", "k[i]", "e - j + i",
)  # fmt: skip
OF_BLOCK = ("t", "l", "b", "t + 0", "(int)t", "threadIdx.x", "t + zero", "t * one", "t & 7", "same(t)", "2 * t - l")
ANYWHERE = (
    "0",
    "N - 1",
    "i / 2",
    "N - 1 - i",
    "back",
    "(i + 1) % N",
    "min(i + 1, N - 1)",
    "max(j - 1, 0)",
    "zero",
    "i ^ 1",
)
ONE = ("i == 0", "i == N - 1", "t == 3", "j == zero", "blockIdx.x == 1 && t == 2", "t == 7 && i > 8", "i == n - 3")


class Indices:
    """Writes one kernel from a seed."""

    def __init__(self, seed):
        self.random, self.count = random.Random(seed), 0
        self.planes = self.random.random() < 0.5  # how the two elements of z and of s that a thread owns are placed

    def name(self, letter):
        self.count += 1
        return f"{letter}{self.count}"

    def pick(self, *forms):
        return self.random.choice(forms)

    def own(self, one, threads):
        """The index of one of the two elements of a thread."""
        i, j, second = self.pick(*one), self.pick(*one), self.random.random() < 0.5
        if self.planes:
            return self.pick(f"({i}) + {threads}", f"{threads} + ({i})") if second else i
        return self.pick(
            f"2 * ({i}) + {int(second)}", f"({i}) + ({j}) + {int(second)}", f"2 * (({i}) + 1) - {2 - second}"
        )

    def element(self, array):
        """An element to read, and whether only this thread touches it."""
        index = {
            "x": lambda: self.pick(*OF_GRID, *ANYWHERE),
            "z": lambda: self.own(OF_GRID, "N"),
            "s": lambda: self.pick(self.own(OF_BLOCK, 8), "15 - t", "t + c", "(t + c) % N", "t / 2", "(t+3) % N", "c"),
            "q": lambda: self.pick("0", "1", "2", "i % 3", "(j + 1) % 3", "zero", "one + c / 4", "2 - zero"),
        }[array]()  # fmt: skip
        return self.pick(
            f"{array}[{index}]", f"{array}[{index}]", f"at({array}, {index})", f"first({array} + ({index}))",
            f"*({array} + ({index}))", f"squared({array}[{index}])", f"first(&{array}[{index}])",
        )  # fmt: skip

    def value(self, arrays, depth=1):
        if not depth:
            return self.pick("v0", "v1", "v2", "a", *(self.element(array) for array in arrays))
        p, r = self.value(arrays, depth - 1), self.value(arrays, depth - 1)
        return self.pick(f"{p} * {r}", f"({p} + 2 * {r})", f"sin({p})", f"tanh({p} - {r})", p)

    def store(self, array, index, arrays):
        """A store into the element with an index, or a change of it."""
        value, p, other = f"tanh({self.value(arrays)})", self.name("p"), self.pick("v0", "v1", "q[1]", "q[zero]")
        return self.pick(
            f"{array}[{index}] {self.pick('=', '+=', '*=')} {value};", f"{array}[{index}] = {value};",
            f"put({array}, {index}, {value});", f"scale({array}[{index}], {value});",
            f"double* {p} = {array} + ({index}); *{p} {self.pick('=', '+=', '*=')} {value};",
            f"double& {p} = {array}[{index}]; {p} = {p} * {value};", f"both({array}[{index}], {other});",
            f"if (i % 3) {array}[{index}] = {value};", f"atomicAdd(&{array}[{index}], {value});",
        )  # fmt: skip

    def barrier(self):
        return self.pick(*["__syncthreads();"] * 3, "if (n > 2) __syncthreads();",
                         f"for (int {(b := self.name('b'))} = 0; {b} < 2; ++{b}) __syncthreads();",
                         "if (one > 0) { v1 *= 0.9; __syncthreads(); }")  # fmt: skip

    def statement(self, depth, uniform):
        arrays, kind = "xzsq", self.random.randrange(13)
        if kind < 2:
            return [self.store("z", self.own(OF_GRID, "N"), arrays)]
        if kind == 2:
            return [self.store("q", self.pick("0", "1", "i % 3", "zero", "2 - c / 4"), arrays)]
        if kind == 3:
            return [self.store("y", self.pick(*OF_GRID), arrays)]
        if kind == 4 and uniform:
            stores = [self.store("s", self.own(OF_BLOCK, 8), "xzq") for _ in range(self.pick(1, 2))]
            return [self.barrier(), *stores, self.barrier()]
        if kind == 5 and uniform:
            return [f"c = {self.pick('0', '1', '(c + 3) % 8', 'c == 2 ? 5 : 2')};"]
        if kind == 6:
            return [
                f"e = {self.pick('back', 'j', '(e + 1) % N')}; v0 += x[e] * x[{self.pick('e', 'i', 'k[e]')}]; e = i;"
            ]
        if kind == 7 and depth:
            w = self.name("w")
            head = self.pick(f"int {w} = 0; {w} < 3; ++{w}", f"int {w} = t % 2; {w} < 4; {w} += 2")
            even = uniform and "t %" not in head
            use = f"v2 += x[{self.pick(f'(i + {w}) % N', w, f'e + {w} - {w}')}] * {self.element(self.pick(*arrays))};"
            return [f"for ({head}) {{", use, *self.body(depth - 1, even), "}"]
        if kind == 8 and depth:
            test = (
                self.pick("i % 2", "x[i] > 0", "t < 5", *ONE)
                if not uniform
                else self.pick("i % 2", "n > 3", "blockIdx.x == 1")
            )
            even = uniform and test in ("n > 3", "blockIdx.x == 1")
            return [f"if ({test}) {{", *self.body(depth - 1, even), "} else {", *self.body(0, even), "}"]
        if kind == 9:
            return [f"atomicAdd(&o[{self.pick('0', 'i % 2', 'zero', 'k[i] / 8')}], {self.value(arrays)});"]
        if kind == 10:  # elements that threads read of which conditions choose one
            uses = [
                f"if ({self.pick(*ONE)}) {v} += w[{self.pick('0', '0', 'zero', '1')}] * {self.element('x')};"
                for v in ("v0", "v1", "v2")[: self.random.randint(1, 3)]
            ]
            return [self.pick(" ", " else ").join(uses)]
        v = self.pick("v0", "v1", "v2")
        return [f"{v} {self.pick('=', '+=', '*=')} tanh({self.value(arrays, 2)});"]

    def body(self, depth, uniform):
        return [s for _ in range(self.random.randint(1, 4)) for s in self.statement(depth, uniform)]

    def kernel(self):
        """The source of `f`."""
        first = ["s[t] = x[i]; s[t + 8] = z[i];", "s[2 * t] = x[back]; s[l + t + 1] = x[i] * a;"][not self.planes]
        lines = [
            "__shared__ double s[16];", *NAMES, "double q[3] = {0.4, x[i], a};", first, "__syncthreads();",
            *self.body(2, True), *self.body(2, True), *self.body(2, True),
            f"y[{self.pick(*OF_GRID)}] = v0 * v1 + v2 * q[0] + q[c % 3] * {self.element('s')};",
        ]  # fmt: skip
        return "\n".join([f'{FUNCTIONS}extern "C" __global__ void f({HEAD}) {{', *("    " + s for s in lines), "}"])
