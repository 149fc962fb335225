"""Random statements of C++: declarations in all forms, references, pointers, lambdas, assignments, loops, branches."""

import re

from adjoint_random_expressions import NUMBERS, Expressions, bare

CHANGES = ("scale", "shift", "turn")


class Statements(Expressions):
    """Statements, each with one side effect at most; a method gives lines, and adds what it declares to the scope."""

    def declared(self, kind, name, *lines):
        self.scopes[-1][name] = kind
        return list(lines)

    def statement(self, depth):
        kinds = [self.new_number, self.new_object, self.reference, self.assign, self.change] * 3
        kinds += [self.pointer, self.array, self.function_changes, self.function_changes, self.lambda_, self.lambda_]
        kinds += [self.loop, self.branch, self.block, self.switch, self.over] if depth else []
        return self.one(*kinds)(depth)

    def body(self, depth, count=2, own=None):
        """Statements in a scope of their own."""
        self.scopes.append(dict(own or {}))
        lines = [line for _ in range(self.random.randint(1, count)) for line in self.statement(depth - 1)]
        self.scopes.pop()
        return ["    " + line for line in lines]

    def new_number(self, _):
        kind = self.one(*NUMBERS, "bool", *["Way"] * self.inside)
        if kind == "Way":
            name = self.fresh(test := self.test())
            return self.declared("Way", name, f"Way {name} = {test} ? Way::Up : Way::Down;")
        value, exact = self.number(2), self.e(kind, 1)
        name, const = self.fresh(value, exact), self.one("", "", "const ")
        if kind == "bool":
            return self.declared("bool", name, f"bool {name} = {self.one(exact, self.e('int', 0))};")
        inner = value if value[0] == "(" else exact + " * 1"  # double v(double(a)) would declare a function
        text = self.one(f"{kind} {name} = {value};", f"{kind} {name}({inner});", f"{kind} {name}{{{exact}}};",
                        f"auto {name} = {exact};", f"{kind} {name} = {{{exact}}};")  # fmt: skip
        return self.declared(const + kind, name, const + text)

    def new_object(self, depth):
        if not self.structs:
            return self.new_number(depth)
        s = self.one(*self.structs.values())
        braces, value = self.braces(s, 1), self.object(s.name, 2)
        arguments = self.arguments(self.one(*s.constructors), 2) if s.constructors else ""
        name = self.fresh(braces, value, arguments)
        forms = [f"{name} = {value};", f"{name}{braces};", f"{name} = {braces};"]
        forms += [f"{name}{{{value}}};"] if s.constructors else []
        if arguments and not re.match(r"\w+(<\w+>)?\(", arguments):
            forms += [f"{name}({arguments});"] * 2
        forms += [f"{name};", f"{name}{{}};"] if s.defaults else []
        text, const = self.one(*forms), self.one("", "", "", "const ")
        if text == f"{name} = {value};" and self.maybe(0.4):
            return self.declared(const + s.name, name, f"{const}auto {text}")
        const = "" if text == f"{name};" else const
        return self.declared(const + s.name, name, f"{const}{s.name} {text}")

    def reference(self, _):
        """To a variable or a part of it, or to a temporary, also one of another type."""
        kind = self.one(*NUMBERS, *self.structs, *self.structs)
        known = self.paths(kind, changed=True)
        if known and self.maybe(0.6):
            target = self.one(*known)
            name, base = self.fresh(target), self.structs[kind].base if kind in self.structs else None
            if base and self.maybe(0.3):
                return self.declared(base.name, name, f"{base.name}& {name} = {target};")
            return self.declared(kind, name, f"{self.one('auto', kind)}& {name} = {target};")
        value = self.e(kind, 2) if kind in self.structs or self.maybe(0.6) else self.number(1)
        if re.search(rf"\.({'|'.join(CHANGES)})\(", value):  # a reference to a temporary would outlive it
            value = f"{kind}({value})"
        name = self.fresh(value)
        its = "auto" if kind in self.structs and self.maybe(0.2) else kind
        if kind in self.structs and value not in self.paths(kind) and value[-1] in ")}" and self.maybe(0.2):
            return self.declared(kind, name, f"auto&& {name} = {kind}({value});")
        return self.declared("const " + kind, name, f"const {its}& {name} = {value};")

    def target(self, kinds=NUMBERS):
        """Something that can be assigned, and its type."""
        for kind in self.random.sample(kinds, len(kinds)):
            if known := self.paths(kind, changed=True):
                return self.one(*known), kind
        return None, None

    def assign(self, depth):
        target, kind = self.target([*NUMBERS, *self.structs])
        if target is None:
            return self.new_number(depth)
        if kind in self.structs:
            forms = [f"= {self.argument(kind, 2)}", f"= {self.object(kind, 2)}", f"= {target}"]
            forms += [f"= {self.one(*self.paths(kind, changed=True))} = {forms[1][2:]}"]
            forms += [f"{o} {self.argument(k, 2)}" for o, k in self.structs[kind].compound]
            return [f"{target} {self.one(*forms)};"]
        if kind == "int":
            forms = [f"{target} {o} {self.e('int', 2)};" for o in ("=", "=", "+=", "-=")]
            return [
                self.one(*forms, f"{target} = {self.number(1)};", f"++{target};", f"{target}--;", f"{target} /= 2;")
            ]
        value, (other, _) = self.number(2), self.target()
        forms = [f"= {value}", f"+= {value}", f"-= {value}", f"*= {self.one('0.5', '1.5', '2')}",
                 f"/= {self.one('2', '1.5f', '3')}"]  # fmt: skip
        if other and other != target:
            forms.append(f"= ({other} = {self.number(1)}) * 2")
        if other and len(known := self.paths(kind, changed=True)) > 1 and self.maybe(0.1):
            return [f"({self.test()} ? {known[0]} : {known[-1]}) {self.one(*forms[:4])};"]
        chained = f"{other} = " if other and self.maybe(0.1) else ""
        return [f"{chained}{target} {self.one(*(forms[:1] if chained else forms))};"]

    def change(self, depth):
        """Methods that return *this, one behind the other; a member of the object may be the argument."""
        objects = [(p, s) for s in self.structs.values() if s.changes for p in self.paths(s.name, changed=True)]
        if not objects:
            return self.assign(depth)
        target, s = self.one(*objects)
        chain = target
        for _ in range(self.one(1, 2)):
            f, own = self.one(*s.changes), [p for p in self.paths("double") if p.startswith(target + ".")]
            member = own and f[2] == ("const double&",)
            chain += f".{f[0]}({self.one(*own) if member else self.arguments(f[2], 2, True)})"
        if s.values and self.maybe(0.3):
            f = self.one(*s.values)
            chain += f".{f[0]}({self.arguments(f[2], 0, True)})"
            name = self.fresh(chain)
            return self.declared(f[1], name, f"{f[1]} {name} = {chain};")
        return [f"{chain};"]

    def pointer(self, depth):
        objects = [(p, s) for s in (*self.structs, "double") for p in self.paths(s, changed=True) if p[0] != "*"]
        if self.inside and self.maybe(0.3):
            name = self.fresh(value := self.e("float", 1))
            line = f"const double* {name} = {self.one('x + 3 * i', '&x[3 * i]')};"
            step = [f"out += *{name}++ * {value};"] * self.one(0, 1)
            return self.declared("const double*", name, line) + step
        if not objects:
            return self.assign(depth)
        target, kind = self.one(*objects)
        name = self.fresh(target)
        return self.declared(kind + "*", name, f"{self.one('auto', kind)}* {name} = &{target};")

    def array(self, depth):
        kind = self.one(*NUMBERS, *(s.name for s in self.structs.values() if s.defaults))
        values = [self.argument(kind, 1) if kind in self.structs else self.exact(kind, 1) for _ in range(2)]
        name = self.fresh(*values)
        if kind in self.structs:
            stores = [f"{name}[{k}] = {v};" for k, v in enumerate(values)]
            return self.declared(f"{kind}[2]", name, f"{kind} {name}[2];", *stores)
        return self.declared(f"{kind}[2]", name, f"{kind} {name}[2] = {{{', '.join(values)}}};")

    def function_changes(self, depth):
        """A function that changes its arguments, of which two may be the same variable."""
        kind = self.one(*NUMBERS, *self.structs)
        if self.inside and self.maybe(0.3) and (known := self.paths(kind, changed=True)):
            return [f"exchange({self.one(*known)}, {self.one(*known)});"]
        if not self.changing:
            return self.change(depth)
        (name, _, kinds), chosen = self.one(*self.changing), []
        for kind in kinds:
            if kind[-1] not in "&*" or kind.startswith("const"):
                chosen.append(self.argument(kind, 1))
            elif known := self.paths(kind[:-1], changed=True):
                chosen.append("&" * kind.endswith("*") + self.one(*known))
            else:
                return self.assign(depth)
        return [f"{name}({', '.join(chosen)});"]

    def lambda_(self, depth):
        """A lambda that is called after a variable has changed."""
        if not self.inside:
            return self.assign(depth)
        name, kind = self.numbered("g"), self.one("double", "float", "auto", "const double&", "int")
        capture, before = self.one("&", "&", "="), self.scopes
        seen = [{n: f"const {bare(k)}" for n, k in s.items()} for s in before] if capture == "=" else before
        self.scopes = [*seen, {}]
        p = self.fresh(name)
        self.scopes[-1][p] = "const double" if kind in ("auto", "const double&") else kind
        lines = [*(self.assign(0) if capture == "&" and self.maybe() else ()), f"return {self.e('double', 2)};"]
        self.scopes = before
        call = f"{name}({self.e('double', 1) if kind == 'auto' else self.number(1)})"
        text, between = f"auto {name} = [{capture}]({kind} {p}) {{ {' '.join(lines)} }};", self.assign(depth)
        used = self.fresh(text, call)
        return [text, *between, *self.declared("double", used, f"double {used} = {call};")]

    def loop(self, depth):
        j = self.numbered("j")
        end = self.one("2", "3", *["k"] * self.inside)
        lines = self.body(depth, own={j: "const int"})
        if self.maybe(0.2):  # the others are left by a jump
            jump = f"    if ({self.test()}) {self.one('break', 'continue')};"
            lines.insert(self.random.randrange(len(lines) + 1) if not any("{" in s for s in lines) else 0, jump)
        elif self.maybe(0.2):
            return [f"int {j} = 0;", f"while ({j} < {end}) {{", *lines, f"    ++{j};", "}"]
        return [f"for (int {j} = 0; {j} < {end}; {self.one('++' + j, j + '++')}) {{", *lines, "}"]

    def over(self, depth):
        """A loop over a local array: by value, by reference, or over its elements in another type."""
        arrays = [(p, k) for k in (*set(NUMBERS), *self.structs) for p in self.paths(f"{k}[2]", changed=True)]
        if not arrays:
            return self.loop(depth)
        target, kind = self.one(*sorted(arrays))
        head, const = self.one(("auto&", ""), ("const auto&", "const "), ("auto", ""), (kind, ""), (kind + "&", ""))
        if kind in NUMBERS and self.maybe(0.3):
            head, const, kind = "const double&", "const ", "double"
        name = self.fresh(target)
        return [f"for ({head} {name} : {target}) {{", "{", *self.body(depth, own={name: const + kind}), "}", "}"]

    def branch(self, depth):
        lines = [f"if ({self.test()}) {{", *self.body(depth), "}"]
        return lines + (["else {", *self.body(depth), "}"] if self.maybe() else [])

    def block(self, depth):
        return ["{", *self.body(depth, 3), "}"]

    def switch(self, depth):
        lines = [f"switch ({self.one(*('k % 3', 'i % 4') * self.inside, self.e('int', 1))}) {{"]
        for k in self.random.sample((0, 1, 2), 2):
            lines += [f"    case {k}: {{", *self.body(depth), "    break; }"]
        return [*lines, "    default: {", *self.body(depth), "    } }"]
