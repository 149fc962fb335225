"""Random expressions of C++, by type: numbers of several kinds mixed, casts, structs in braces, calls, choices."""

import random
import re
from dataclasses import dataclass, field

NUMBERS = ("double", "double", "float", "int")
BELOW = {"double": ("double", "double", "float", "int", "unsigned", "bool"), "float": ("float", "float", "int"),
         "int": ("int", "int", "bool"), "T": ("T", "T", "int"), "unsigned": ("unsigned",)}  # fmt: skip
LITERALS = {"double": ("0.75", "1.5", "2.25", "1.25"), "float": ("0.5f", "1.5f", "2.25f"), "int": ("2", "3", "5", "7"),
            "unsigned": ("3u", "5u"), "T": ("T(2)", "T{3}", "T(1) / 2", "T(1.5)")}  # fmt: skip


def bare(kind):
    """A type without const and &."""
    return kind.removeprefix("const ").rstrip("&")


@dataclass
class Struct:
    """What one may do with a struct. Functions are (name, type of the result, types of the parameters)."""

    name: str
    own: dict[str, str] = field(default_factory=dict)  # {member: type}; one may hide one of the base
    base: "Struct | None" = None
    constructors: list[tuple[str, ...]] = field(default_factory=list)  # none: an aggregate
    defaults: bool = True  # `S s;` leaves nothing unset
    values: list[tuple] = field(default_factory=list)  # methods that change nothing
    changes: list[tuple] = field(default_factory=list)  # methods that return *this
    indexed: list[str] = field(default_factory=list)  # the type of s[k], a reference to a member
    places: list[tuple] = field(default_factory=list)  # methods that return a reference to a member: (name, its type)
    operators: list[tuple] = field(default_factory=list)  # (operator, type of the left side, of the right side)
    compound: list[tuple] = field(default_factory=list)  # (operator, type of the right side)
    number: str = ""  # the type to which it converts

    @property
    def fields(self):
        return (self.base.fields if self.base else {}) | self.own


class Expressions:
    """Expressions without side effects on what is visible."""

    def __init__(self, seed):
        self.random, self.count, self.inside = random.Random(seed), 0, False  # inside: of the kernel
        self.structs, self.functions, self.changing, self.templates = {}, [], [], []
        self.scopes = [{}]  # {name or text: type}, from the outermost one
        self.single = self.maybe()  # False: float is double in all of the text

    def one(self, *options):
        return self.random.choice(options)

    def maybe(self, p=0.5):
        return self.random.random() < p

    def visible(self):
        return {name: kind for scope in self.scopes for name, kind in scope.items()}

    def fresh(self, *values, letters="pqrstuvw"):
        """A name that is new in this scope and does not stand in its first values; it may hide another."""
        text = " ".join(values)
        for name in self.random.sample(letters, len(letters)):
            hides = name in self.visible()
            if name not in self.scopes[-1] and not re.search(rf"\b{name}\b", text) and (not hides or self.maybe(0.3)):
                return name
        return self.numbered(letters[0])

    def numbered(self, letter):
        self.count += 1
        return f"{letter}{self.count}"

    def paths(self, want, changed=False):
        """What is visible and of this type: variables, members, elements, what pointers and references lead to."""
        found = []
        for name, kind in self.visible().items():
            if not (changed and kind.startswith("const ")):
                self.parts(name, kind.removeprefix("const "), want, found, changed)
        return found

    def parts(self, path, kind, want, found, changed):
        if kind == want:
            found.append(path)
        if kind.endswith("]"):
            for k in self.random.sample(("0", "1", *["k & 1"] * self.inside), 2):
                self.parts(f"{path}[{k}]", kind[:-3], want, found, changed)
        elif kind.endswith("*") and kind[:-1] not in self.structs:
            self.parts(self.one(f"*{path}", f"{path}[0]"), kind[:-1], want, found, changed)
        elif s := self.structs.get(kind.rstrip("*")):
            path += "->" if kind.endswith("*") else "."
            for name, its in s.fields.items():
                self.parts(path + name, its, want, found, changed)
            found += [f"{path}{name}({self.one(*'0123')})" for name, its in s.places if changed and its == want]
            found += [
                f"{path[:-1]}[{self.one(*'0123')}]" for its in s.indexed if changed and its == want and path[-1] == "."
            ]

    def derived(self, name):
        return [p for d in self.structs.values() if d.base and d.base.name == name for p in self.paths(d.name)]

    def e(self, kind, depth=2):
        """An expression of exactly this type."""
        if kind in self.structs:
            return self.object(kind, depth)
        if kind == "bool":
            return f"({self.test()})"
        known = self.paths(kind)
        if depth <= 0 or self.maybe(0.2):
            return self.one(*known) if known and self.maybe(0.8) else self.one(*LITERALS[kind])
        ways = [self.arithmetic] * 5 + [self.cast, self.choice] + [self.call] * 2 * (kind in NUMBERS)
        return self.one(*ways)(kind, depth)

    def number(self, depth=1):
        return self.e(self.one(*NUMBERS), depth)

    def arithmetic(self, kind, depth):
        a, b = self.e(kind, depth - 1), self.e(self.one(*BELOW[kind]), depth - 1)
        if kind == "int":
            return f"({a} {self.one('+ 1', '* 2', '/ 2', '% 3', '& 3', '>> 1', '- ' + b, '+ ' + b, '- 3')})"
        if kind == "unsigned":
            a = self.e("int", 0)
            return self.one(f"((unsigned)({a} & 7) + 3u)", f"(unsigned({a} & 3) * 2 / 3)", "(3u / 2)")
        a, b = (b, a) if self.maybe() else (a, b)
        f, way = "f" * (kind == "float"), self.random.random()
        if kind == "T" or way < 0.5:
            return f"({a} {self.one('+', '-', '*')} {b})"
        a = self.e(kind, depth - 1)
        if way < 0.75:
            return f"{self.one('sin', 'cos', 'tanh')}{f}({a})"
        over = f"(({self.e('int', 0)} & 3) + 2) / 2 * 1.5{f}", f"(2.5{f} + sin{f}({self.e(kind, depth - 1)}))"
        return f"({a} / {self.one('2', '3', '7', *over)})"

    def cast(self, kind, depth):
        if kind == "unsigned":
            return self.arithmetic(kind, depth)
        a = self.number(depth - 1) if kind != "T" else self.e(self.one("T", "int"), depth - 1)
        return self.one(f"({kind})({a})", f"{kind}({a})", f"static_cast<{kind}>({a})", f"{kind}{{{self.e(kind, 0)}}}")

    def choice(self, kind, depth):
        return f"({self.test()} ? {self.e(kind, depth - 1)} : {self.e(self.one(*BELOW[kind]), depth - 1)})"

    def test(self):
        a = self.e("int", 0)
        inside = ("bool(k & 1)", "i % 2", "k > 1", "x[3 * i] > 0.1", "!(k % 3)", "k > 0 && i % 4 != 1") * self.inside
        enums = (f"{p} == Way::Up" for p in self.paths("Way"))
        return self.one(f"{a} > 2", f"bool({a} & 1)", f"!({a} % 3)", *inside, *self.paths("bool"), *enums)

    def call(self, kind, depth):
        """A call of a function, a method or a conversion that gives this type."""
        ways = [lambda f=f: f"{f[0]}({self.arguments(f[2], depth)})" for f in self.functions if f[1] == kind]
        for s in self.structs.values():
            ways += [lambda f=f, s=s: f"{self.object(s.name, depth - 1)}.{f[0]}({self.arguments(f[2], depth, True)})"
                     for f in s.values if f[1] == kind]  # fmt: skip
            if s.number == kind:
                ways += [lambda s=s: f"{kind}({self.object(s.name, depth - 1)})"]
                ways += [lambda s=s: f"({self.object(s.name, depth - 1)} + 0)"] * (not s.operators)
        ways += [lambda t=t: f"{t}({self.e(kind, depth - 1)})" for t in self.templates]
        return self.one(*ways)() if ways else self.arithmetic(kind, depth)

    def arguments(self, kinds, depth=1, method=False):
        return ", ".join(self.argument(kind, depth - 1, method) for kind in kinds)

    def argument(self, kind, depth, method=False):
        """What converts to the type of a parameter."""
        kind = bare(kind)
        if (s := self.structs.get(kind)) is None:
            return self.e(kind, depth) if kind in ("T", "unsigned") or self.maybe(0.6) else self.number(depth)
        if (known := self.derived(kind)) and self.maybe(0.4):
            return self.one(*known)  # its part, a copy of it
        numbers = [c[0] for c in s.constructors if len(c) == 1 and c[0] in NUMBERS]
        if numbers and not self.structs.get(kind).operators and self.maybe(0.2):
            return self.e(numbers[0], depth)
        return self.braces(s, depth) if self.maybe(0.3) and not method else self.object(kind, depth)

    def exact(self, kind, depth):
        """In braces, where nothing narrows."""
        kind = bare(kind)
        if kind in ("double", "float", "T") and self.maybe(0.3):
            return self.one("1", "3", "2")
        return self.e("float" if kind == "double" and self.maybe(0.2) else kind, depth)

    def empty(self, kind):
        """True where {} is a value of this type."""
        s = self.structs.get(kind)
        parts = [*s.own.values(), *([s.base.name] if s.base else [])] if s else []
        return not s or () in s.constructors or (not s.constructors and all(map(self.empty, parts)))

    def braces(self, s, depth):
        """Values in braces, for a constructor or for the members, of which the last may be left out."""
        if s.constructors:
            return "{" + ", ".join(self.exact(k, depth) for k in self.one(*s.constructors)) + "}"
        kinds, items = list(s.own.values()), [self.braces(s.base, depth)] if s.base else []
        for n, kind in enumerate(kinds):
            if self.maybe(0.15) and all(map(self.empty, kinds[n:])):
                break
            if kind.endswith("]"):
                items.append("{" + ", ".join(self.exact(kind[:-3], depth - 1) for _ in range(self.one(1, 2, 2))) + "}")
            elif kind in self.structs and self.maybe():
                items.append(self.braces(self.structs[kind], depth - 1))
            else:
                items.append(self.exact(kind, depth - 1))
        return "{" + ", ".join(items) + "}"

    def object(self, name, depth):
        """A struct."""
        s, known = self.structs[name], self.paths(name)
        if known and (depth <= 0 or self.maybe(0.4)):
            return self.one(*known)
        if depth <= 0:
            return name + self.braces(s, 0)
        ways = [lambda: name + self.braces(s, depth - 1)]
        ways += [lambda c=c: f"{name}({self.arguments(c, depth)})" for c in s.constructors]
        ways += [lambda o=o: f"({self.e(o[1], depth - 1)} {o[0]} {self.e(o[2], depth - 1)})" for o in s.operators]
        ways += [lambda f=f: f"{f[0]}({self.arguments(f[2], depth)})" for f in self.functions if f[1] == name]
        ways += [lambda f=f: f"{name}{self.braces(s, depth - 1)}.{f[0]}({self.arguments(f[2], depth, True)})"
                 for f in s.changes]  # fmt: skip
        if len(known) > 1 or not s.constructors:
            ways += [lambda: f"({self.test()} ? {self.object(name, 0)} : {self.object(name, 0)})"]
        ways += [lambda p=p: self.one(f"{name}({p})", f"static_cast<const {name}&>({p})")
                 for p in known + self.derived(name)]  # fmt: skip
        return self.one(*ways)()
