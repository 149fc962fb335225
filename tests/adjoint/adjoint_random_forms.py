"""Random kernels of mixed forms: functions that call functions, flags, unsigned numbers, hidden names, 2-D arrays."""

import random

BLOCK = 8
HEAD = (
    "const double* x, const double* w, double a, double b, double* z, double* y, double* o, double* acc, int n"
)  # fmt: skip
FUNCTIONS = """\
#define TWO 2
__device__ double inner(double p, int k) {
    double v = p;
    for (int c = 0; c < 4; ++c) {
        if (c >= k) break;
        v = v * p / TWO + 0.1;
    }
    return v;
}
__device__ double outer(double p, double r, const double* w) {
    if (p < r) return inner(p, 2) * w[1];
    bool low = r < 0;
    double p2 = low ? -p : p;
    return inner(p2, 1) + r * inner(r, 3);
}
"""


class Forms:
    """Writes one kernel from a seed."""

    def __init__(self, seed):
        self.random, self.count = random.Random(seed), 0

    def name(self, letter):
        self.count += 1
        return f"{letter}{self.count}"

    def leaf(self):
        known = ["v0", "v1", "v2", "x[i]", "w[0]", "w[k]", "a", "b", "z[i]", "q[k]", "0.7", "m[1][k]", "x[(i + 1) % n]"]
        return self.random.choice(known)

    def value(self, depth=2):
        if not depth:
            return self.leaf()
        p, r = self.value(depth - 1), self.value(depth - 1)
        forms = [
            f"({p} {self.random.choice('+-*')} {r})", f"sin({p})", f"({self.test()} ? {p} : {r})",
            f"outer({p}, {r}, w)",
            f"({p} / (2.5 + cos({r})))", f"min({p}, {r})", f"fma({p}, {r}, a)", f"tanh({p})", f"hypot({p}, 1.0)",
            f"atan2({p}, 2.5 + sin({r}))", f"fmod({p}, 1.7)", f"inner({p}, k)", f"pow(fabs({p}) + 0.3, 1.5)", f"-({p})",
        ]  # fmt: skip
        return self.random.choice([*forms, self.leaf()])

    def test(self):
        return self.random.choice(["flag", "!flag", f"{self.leaf()} < {self.leaf()}", "i % 2 == 0", "u > 3u && flag"])

    def body(self, depth, jumps=False, uniform=False):
        return [s for _ in range(self.random.randint(1, 4)) for s in self.statement(depth, jumps, uniform)]

    def braces(self, head, body):
        return [f"{head} {{", *("    " + s for s in body), "}"]

    def statement(self, depth, jumps, uniform):
        kind, v = self.random.randrange(16), self.random.choice(["v0", "v1", "v2"])
        if kind < 4 or (not depth and kind > 10):
            return [f"{v} {self.random.choice(['=', '+=', '*=', '-='])} tanh({self.value()});"]
        if kind == 4:
            return [f"{v} /= 2.5 + sin({self.value(1)});"]
        if kind == 5:
            return [f"{self.random.choice(['q[k]', 'q[2]', 'm[1][k]', 'm[k % 2][0]', 'z[i]', 'y[i]', 'o[i]'])} "
                    f"{self.random.choice(['=', '+=', '*='])} 0.5 * sin({self.value()});"]  # fmt: skip
        if kind == 6:
            return [f"flag = {self.leaf()} < {self.value(1)};"]
        if kind == 7:
            number = self.random.randrange(3)
            return [f"k = (int)(1.5 + 1.49 * tanh({self.value(1)}));", f"u = u * 3u % 7u + {number}u;"]
        if kind == 8:
            return [f"atomicAdd(&acc[{self.random.choice(['k', 'i % 2', '0'])}], {self.value(1)});"]
        if kind == 9:
            inside = [f"double v0 = {self.value(1)} * 0.5;", f"int {self.name('c')} = 1;", "v2 += v0 * v1;"]
            return self.braces("", [*inside, *self.body(0)])
        if kind == 10 and uniform:
            read = f"{v} = s[t % 2][(t + {self.random.randrange(BLOCK)}) % {BLOCK}];"
            return [f"s[0][t] = {self.value(1)};", f"s[1][t] = {self.value(1)};", "__syncthreads();", read,
                    "__syncthreads();"]  # fmt: skip
        if kind == 11:
            jump = [self.random.choice(["break;", "continue;"])] if jumps else []
            return [*self.braces(f"if ({self.test()})", [*self.body(depth - 1), *jump]),
                    *self.braces("else", self.body(depth - 1))]  # fmt: skip
        if kind == 12:
            j = self.name("j")
            head = self.random.choice(["int {} = 0; {} < 3; ++{}", "int {} = n / 4; {} > 0; {} -= 1",
                                       "int {} = t; {} < 2 * 8; {} += 5",
                                       "unsigned {} = 0; {} < 3u; ++{}"])  # fmt: skip
            inside = [f"v1 += 0.1 * x[{j}] * v0;", *self.body(depth - 1, True)]
            return self.braces(f"for ({head.format(j, j, j)})", inside)
        if kind == 13:
            c = self.name("c")
            end = f"if ({c} > 2 || v0 > 1.5) break;"
            inside = [f"{c} += 1;", *self.body(depth - 1, False), end, "v1 *= 0.9;"]
            return [f"int {c} = 0;", *self.braces("while (true)", inside)]
        if kind == 14 and depth:
            c = self.name("c")
            loop = self.braces(f"for ({c} = 0; {c} < 2; ++{c})", self.body(depth - 1, True, uniform))
            return [f"int {c};", *loop, f"v2 *= 0.3 * {c};"]
        return [f"{v} = {self.value(3)};"]

    def kernel(self):
        """The source of `f`."""
        guard = self.random.choice(["if (blockIdx.x > 5) return;", "if (n < 0) return;", ""])
        lines = [
            "__shared__ double s[2][8];", guard, "int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;",
            "double v0 = x[i], v1 = 0.3, v2 = a * b; double q[3] = {0.1, a, x[i]};", "double m[2][3];",
            "for (int r = 0; r < 2; ++r) { for (int c = 0; c < 3; ++c) { m[r][c] = w[c] * (r + 0.5); } }",
            "bool flag = x[i] > 0; int k = 1; unsigned u = t;",
            *self.body(3, uniform=True), *self.body(2, uniform=True),
            "y[i] = v0 * v1 + v2 + q[0] * q[k] + m[1][2];",
        ]  # fmt: skip
        head = f'{FUNCTIONS}extern "C" __global__ void f({HEAD}) {{'
        return "\n".join([head, *("    " + s for s in lines if s), "}"])
