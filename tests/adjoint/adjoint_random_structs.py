"""Random kernels of C++ as people write it: structs with all that belongs to them, and functions that take them.

Each is defined to the last (one side effect in a statement, nothing read before it is set) and smooth at its inputs:
whole numbers come from m[i], from counters, literals and fractions. Thread i reads x[3 * i], ..., x[3 * i + 2] and
stores y[i]: scale[i] times a sum of all that it computed.
"""

import re

from adjoint_random_expressions import LITERALS, NUMBERS, Struct
from adjoint_random_statements import CHANGES, Statements

HEAD = """\
constexpr double HALF = 1 / 2.0;
enum class Way { Up, Down = 4 };
struct Fixed { static constexpr double a = 3; static constexpr float b = 5; static constexpr int n = 7; };
template <class T> __device__ void exchange(T& a, T& b) { T c = a; a = b; b = c; }
"""
CONSTANTS = {"HALF": "const double", "Fixed::a": "const double", "Fixed::b": "const float", "Fixed::n": "const int",
             "(int)Way::Down": "const int"}  # fmt: skip
PARAMETERS = "const double* x, const double* scale, const int* m, double* y, int n"


class Structs(Statements):
    """Writes one kernel from a seed."""

    def kernel(self):
        """The source of `f(x, scale, m, y, n)`."""
        given = {f"x[3 * i{p}]": "const double" for p in ("", " + 1", " + 2")} | {"k": "const int"}
        self.scopes, text = [CONSTANTS], []
        for _ in range(self.random.randint(1, 3)):
            text += self.new_struct()
            text += self.new_function() if self.maybe(0.7) else []
        self.inside, self.scopes = True, [CONSTANTS, given, {}]
        body = [line for _ in range(self.random.randint(3, 7)) for line in self.statement(2)]
        self.scopes[:2] = []
        for kind in dict.fromkeys((*NUMBERS, "bool")):
            body += [f"out += {self.one('0.5', '0.3', '1.5')} * {p};" for p in self.paths(kind)]
        start = "int i = blockIdx.x * blockDim.x + threadIdx.x, k = m[i];"
        lines = [start, "double out = x[3 * i];", *body, "y[i] = out * scale[i];"]
        made = "\n".join([HEAD, *text, f"__global__ void f({PARAMETERS}) {{", *("    " + s for s in lines), "}"])
        return (
            made if self.single else re.sub(r"\bfloat\b", "double", re.sub(r"\b(\d\.\d+|sin|cos|tanh)f\b", r"\1", made))
        )

    def new_struct(self):
        """The text of a struct, or of a template of which some types are known from then on."""
        s, template = Struct(self.numbered("S")), self.maybe(0.25)
        numbers = ("T", "T", "int", "double") if template else ("double", "float", "float", "int", "bool", "unsigned")
        if not template and self.structs and self.maybe(0.35):
            s.base = self.one(*self.structs.values())
            s.defaults = s.base.defaults
        lines = [
            self.member(s, name, template, numbers) for name in "abcde"[: self.one(1, 2, 3)] if name not in s.fields
        ]
        lines += self.constructors(s, numbers) if self.maybe(0.55) else []
        self.structs[s.name] = s
        lines += self.methods(s, numbers, template)
        head = f"struct {s.name}{f' : {s.base.name}' if s.base else ''} {{"
        text = [*["template <class T>"] * template, head, *("    " + line for line in lines), "};"]
        if template:
            del self.structs[s.name]
            made = [instance(s, t) for t in self.random.sample(("double", "float", "int"), 2)]
            self.structs |= {each.name: each for each in made}
        return text

    def names(self, s):
        """Of members; one in eight of those of the base is hidden."""
        free = [n for n in "abcdefgh" if n not in s.fields or self.maybe(0.12)]
        return free[: self.one(1, 2, 3)]

    def member(self, s, name, template, numbers):
        kind = self.one(*numbers, *(() if template else (*self.structs, "double[2]", "int[2]")))
        self.scopes.append({} if template else {n: f"const {k}" for n, k in s.own.items()})
        value = ""
        if self.maybe(0.4) and kind in LITERALS:
            value = self.one(f" = {self.e(kind, 1)}", f"{{{self.e(kind, 1)}}}", f" = {self.one('3', '5', '1')}")
        elif self.maybe(0.4) and kind.endswith("]"):
            value = " = {" + self.one("3, 2", "5") + "}"
        self.scopes.pop()
        s.defaults &= bool(value) or (kind in self.structs and self.structs[kind].defaults)
        s.own[name] = kind
        array = "[2]" * kind.endswith("]")
        return f"{kind.removesuffix(array)} {name}{array}{value};"

    def constructors(self, s, numbers):
        """One or two, and one that delegates to the first."""
        second = (numbers[0], self.one("int", "const double&", numbers[1]))
        lines, made = [], []
        for kinds in self.random.sample([(self.one(*numbers[:3]),), second], self.one(1, 2)):
            params = self.params(kinds)
            self.scopes.append({n: k.rstrip("&") for n, k in params.items()})
            inits = [s.base.name + self.braces(s.base, 1)] if s.base else []
            for name, its in s.own.items():
                if its.endswith("]"):
                    inits.append(f"{name}{{{self.exact(its[:-3], 1)}, {self.exact(its[:-3], 0)}}}")
                elif its in self.structs:
                    inits.append(name + self.braces(self.structs[its], 1))
                else:
                    value = self.e(its, 1)
                    inits.append(self.one(f"{name}({value})", f"{name}{{{value}}}", f"{name}({self.argument(its, 1)})"))
                if name not in params:
                    self.scopes[-1][name] = f"const {its}"
            self.scopes[-1:] = [dict(s.fields), {n: k.rstrip("&") for n, k in params.items()}]
            body = self.assign(0) if self.maybe(0.3) else []
            self.scopes[-2:] = []
            lines.append(f"{self.head(s.name, params)} : {', '.join(inits)} {{ {' '.join(body)} }}")
            made.append(kinds)
        s.constructors, s.defaults = made, self.maybe()
        if s.defaults:
            lines.append(f"__device__ {s.name}() : {s.name}({self.arguments(made[0], 1)}) {{}}")
            s.constructors.append(())
        return lines

    def methods(self, s, numbers, template):
        """Methods and operators; each uses those above it."""
        lines, me, number = [], s.name, numbers[0]
        fields = s.fields | {"(*this)": me}
        constant = {n: f"const {k}" for n, k in fields.items()}
        taken = {f[0] for f in s.base.values} if s.base else set()
        for name in sorted({f"get{self.one('', *'XYZ')}" for _ in range(self.one(0, 1, 2))} - taken):
            kind, kinds = self.one(*numbers[:4], me), self.one((), ("int",), (number,), (f"const {me}&",))
            lines.append(self.function(f"{kind} {name}", kinds, kind, constant, True))
            s.values.append((name, kind, kinds))
        if (known := [n for n, k in s.own.items() if k == number]) and self.maybe(0.3):
            name = self.one("operator[]", f"{me}_at")
            lines.append(f"__device__ {number}& {name}(int k) {{ return k & 1 ? {known[0]} : {known[-1]}; }}")
            s.places += [(name, number)] * (name != "operator[]")
            s.indexed += [number] * (name == "operator[]")
        for name in self.random.sample(CHANGES, self.one(0, 1, 2)):
            kinds = self.one(("double",), ("const double&",), ("float",), (f"const {me}&",), ("int", "double"))
            lines.append(self.function(f"{me}& {name}", kinds, "*this", fields))
            s.changes.append((name, me, kinds))
        if s.base and (s.base.operators or s.base.compound or s.base.number):
            return lines
        if self.maybe(0.6):
            o, kind = self.one("+=", "*="), self.one(me, number, me)
            lines.append(self.function(f"{me}& operator{o}", (f"const {kind}&",), "*this", fields))
            s.compound.append((o, kind))
        o, kind = self.one("+", "-", "*"), self.one(me, number)
        way = self.one("method", "friend", "friend", "conversion")
        if way == "method":
            lines.append(self.function(f"{me} operator{o}", (self.one(f"const {kind}&", kind),), me, constant, True))
            s.operators.append((o, me, kind))
        elif way == "friend":
            lines.append(self.function(f"friend {me} operator{o}", (kind, f"const {me}&"), me))
            s.operators.append((o, kind, me))
        elif not template:
            kind = self.one("double", "float", "int")
            lines.append(self.function(f"operator {kind}", (), kind, constant, True))
            s.number = kind
        return lines

    def params(self, kinds):
        return dict(zip(self.random.sample("abpqrst", len(kinds)), kinds, strict=True))

    def head(self, name, params):
        return f"__device__ {name}({', '.join(f'{k} {n}' for n, k in params.items())})"

    def function(self, name, kinds, result="", fields=None, const=False):
        """The text of a function. result: the type of what it returns, or *this."""
        params = self.params(kinds)
        self.scopes += [dict(fields or {}), {n: k.rstrip("&") for n, k in params.items()}]
        lines = [line for _ in range(self.one(0, 1, 2) if not const else self.one(0, 1)) for line in self.statement(1)]
        if result and result != "*this":
            early = f"if ({self.test()}) return {self.e(result, 1)};"
            lines += [early] * (result in NUMBERS and self.maybe(0.2)) + [f"return {self.e(result, 2)};"]
        elif result:
            lines.append("return *this;")
        self.scopes[-2:] = []
        return f"{self.head(name, params)}{' const' * const} {{ {' '.join(lines)} }}"

    def new_function(self):
        """One that gives a value, one that changes its arguments, or a template."""
        name, made, way = self.numbered("f"), list(self.structs), self.random.random()
        if way < 0.2:
            self.scopes.append({"v": "T"})
            text = f"template <class T> __device__ T {name}(T v) {{ return {self.e('T', 2)}; }}"
            self.scopes.pop()
            self.templates.append(name)
            return [text]
        const = [f"const {s}&" for s in made]
        if way < 0.5:
            first = self.one("double&", "double&", "float&", "int&", *(s + o for s in made for o in "&*"))
            kinds = (first, self.one(first, "double", "const double&", "int", *const))
            text = self.function(f"void {name}", kinds)
            self.changing.append((name, "void", kinds))
            return [text]
        kind = self.one("double", "double", "float", "int", *made)
        kinds = tuple(self.one("double", "const double&", "float", "int", *made, *const) for _ in range(self.one(1, 2)))
        text = self.function(f"{kind} {name}", kinds, kind)
        self.functions.append((name, kind, kinds))
        return [text]


def instance(s, t):
    """The struct that a template makes for a type."""

    def of(kind):
        return re.sub(rf"\b{s.name}\b", f"{s.name}<{t}>", re.sub(r"\bT\b", t, kind))

    def each(items):
        return [(f[0], *(tuple(map(of, k)) if isinstance(k, tuple) else of(k) for k in f[1:])) for f in items]

    made = Struct(of(s.name), {n: of(k) for n, k in s.own.items()}, None, [tuple(map(of, c)) for c in s.constructors])
    made.defaults, made.values, made.changes, made.places = s.defaults, each(s.values), each(s.changes), each(s.places)
    made.indexed, made.operators, made.compound = list(map(of, s.indexed)), each(s.operators), each(s.compound)
    return made
