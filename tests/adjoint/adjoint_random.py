"""Random kernels: branches, nested loops of many kinds, jumps, overwritten variables, local and shared arrays."""

import random

BLOCK = 8
HEADS = (
    "for (int {0} = 0; {0} < 3; ++{0})", "for (int {0} = 0; {0} < n; ++{0})", "for (int {0} = n; {0} > 0; --{0})",
    "for (int {0} = 1; {0} <= n; {0} += 2)", "for (int {0} = 8; {0} > 0; {0} /= 2)",
)  # fmt: skip
FUNCTION = """\
__device__ double g(double p, double r) {
    if (p > r) return p * sin(r);
    double m = p;
    for (int l = 0; l < 2; ++l) m = m * 0.5 * r;
    return m;
}
"""


class Writer:
    """Writes one kernel from a seed."""

    def __init__(self, seed):
        self.random, self.names, self.loops = random.Random(seed), 0, []
        self.array, self.shared, self.inplace = (self.random.random() < p for p in (0.6, 0.5, 0.3))
        self.apart = False  # within a loop whose iterations pass nothing on

    def name(self, letter):
        self.names += 1
        return f"{letter}{self.names}"

    def index(self):
        return self.random.choice(["0", "1", "2", *(f"{j} % 3" for j in self.loops)])

    def leaf(self):
        known = ["x[i]", f"w[{self.random.randrange(3)}]", "a", "0.7", "1.3"]
        known += [] if self.apart else ["v0", "v1", "v2", "z[i]"]
        known += [f"q[{self.index()}]"] * 2 if self.array else []
        return self.random.choice([*known, *(f"0.1 * {j}" for j in self.loops[:1])])

    def value(self, depth=2):
        if not depth:
            return self.leaf()
        a, b, condition = self.value(depth - 1), self.value(depth - 1), f"{self.leaf()} < {self.leaf()}"
        kinds = [f"({a} {op} {b})" for op in "+-*"] + [f"sin({a})", f"tanh({a})", f"({condition} ? {a} : {b})"]
        return self.random.choice([*kinds, f"({a} / (2.5 + sin({b})))", f"max({a}, {b})", f"g({a}, {b})", self.leaf()])

    def assignment(self):
        targets = ["v0", "v1", "v2", "v0", "v1", "y[i]"] + [f"q[{self.index()}]"] * 2 * self.array
        target = self.random.choice(targets + ["z[i]"] * self.inplace)
        op = self.random.choice(["=", "=", "=", "+=", "-=", "*="])
        return f"{target} {op} {'sin' if op == '=' else '0.5 * tanh'}({self.value()});"

    def body(self, depth, pad, loop, uniform):
        return [line for _ in range(self.random.randint(1, 4)) for line in self.statement(depth, pad, loop, uniform)]

    def statement(self, depth, pad, loop, uniform):
        kind, inner = self.random.randrange(9) if depth else 0, pad + "    "
        if kind == 4:
            then = self.body(depth - 1, inner, loop, False)
            jump = (
                [f"{inner}{self.random.choice(['break', 'continue'])};"] if loop and self.random.random() < 0.3 else []
            )
            other = self.body(depth - 1, inner, loop, False)
            condition = f"{self.value(1)} < {self.value(1)}"
            return [f"{pad}if ({condition}) {{", *then, *jump, f"{pad}}} else {{", *other, f"{pad}}}"]
        if kind == 5 and uniform and self.shared:
            read = f"v{self.random.randrange(3)} = s[(t + {self.random.randrange(BLOCK)}) % {BLOCK}];"
            exchange = (f"s[t] = {self.value()};", "__syncthreads();", read, "__syncthreads();")
            return [pad + line for line in exchange[self.random.choice([0, 0, 2]) :]]
        if kind == 3 and self.array and self.random.random() < 0.5:
            return [f"{pad}q[{n}] = {self.value(1)};" for n in range(3)]
        if kind == 2 and uniform and not self.apart:
            return self.iterations_apart(pad, inner)
        if kind in (6, 7):
            self.loops.append(j := self.name("j"))
            body = self.body(depth - 1, inner, True, uniform)
            self.loops.remove(j)
            return [f"{pad}{self.random.choice(HEADS).format(j)} {{", *body, f"{pad}}}"]
        if kind == 8:
            c, condition = self.name("c"), f"{self.value(1)} < {self.value(1)}"
            head = [f"{pad}int {c} = 0;", f"{pad}while ({c} < 3 && {condition}) {{", f"{inner}{c} += 1;"]
            return [*head, *self.body(depth - 1, inner, True, False), f"{pad}}}"]
        return [pad + self.assignment()]

    def iterations_apart(self, pad, inner):
        """A loop whose iterations fill arrays, read them and add: in any order, if nothing else reads the arrays."""
        self.apart = True
        self.loops.append(j := self.name("j"))
        array, self.array = self.array, False
        body = [f"q[{n}] = 0.1 * {j} * {self.value(1)};" for n in range(3)] * array
        if self.shared:
            far = f"s[(t + {self.random.randrange(BLOCK)}) % {BLOCK}]"
            body += [
                f"s[t] = 0.1 * {j} * {self.value(1)};",
                "__syncthreads();",
                f"v0 += 0.1 * {far} * s[t];",
                "__syncthreads();",
            ]
        self.array = array
        body += [f"{self.random.choice(['v1', 'v2', 'y[i]'])} += 0.1 * {self.value(1)};" for _ in range(2)]
        self.loops.remove(j)
        self.apart = False
        return [f"{pad}{self.random.choice(HEADS).format(j)} {{", *(inner + line for line in body), f"{pad}}}"]

    def kernel(self):
        """The source of `f(x, w, a, z, y, n)`."""
        lines = [f"    __shared__ double s[{BLOCK}];"] if self.shared else []
        lines += [
            "    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;",
            "    double v0 = x[i], v1 = 0.3, v2 = a;",
        ]
        lines += ["    double q[3];", "    q[0] = v0; q[1] = w[0]; q[2] = 0.2;"] if self.array else []
        lines += ["    s[t] = 0.1 * x[i];", "    __syncthreads();"] if self.shared else []
        lines += [*self.body(3, "    ", False, True), *self.body(3, "    ", False, True)]
        lines += [f"    y[i] = v0 * v1 + v2{' + q[0] * q[1] - q[2]' * self.array}{' + s[t]' * self.shared};"]
        head = "const double* x, const double* w, double a, double* z, double* y, int n"
        return "\n".join([f'{FUNCTION}extern "C" __global__ void f({head}) {{', *lines, "}"])
