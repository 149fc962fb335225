"""The syntax tree printed as CUDA C++."""

from collections.abc import Iterable
from textwrap import wrap

from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import PRECEDENCE, Expr, Stmt
from minigrad.adjoint.language.rewrite import logical_not

INDENT = "    "
TOP, UNARY, PRIMARY = 0, 11, 12


def expression(e: Expr, rank: int = TOP) -> str:
    """The text of an expression, in parentheses if it binds less tightly than `rank`."""
    text, own = _expression(e)
    return f"({text})" if own < rank else text


def _expression(e: Expr) -> tuple[str, int]:
    match e:
        case ast.Number():
            return e.text, PRIMARY
        case ast.Name():
            return e.name, PRIMARY
        case ast.Index():
            return _element(e), PRIMARY
        case ast.Call():
            return f"{e.function}({', '.join(map(expression, e.arguments))})", PRIMARY
        case ast.Cast():
            call = f"{e.type}({expression(e.operand)})"
            return call if " " not in e.type else f"({e.type}){expression(e.operand, UNARY)}", PRIMARY
        case ast.Unary():
            return e.op + expression(e.operand, UNARY + (isinstance(e.operand, ast.Unary))), UNARY
        case ast.Ternary():
            return f"{expression(e.condition, 1)} ? {expression(e.yes, 1)} : {expression(e.no)}", TOP
        case ast.Binary():
            rank = PRECEDENCE[e.op]
            left, right = e.left, e.right
            mixed = e.op == "||"  # compilers ask for parentheses around && within ||
            return f"{expression(left, rank + mixed * 2)} {e.op} {expression(right, rank + 1 + mixed)}", rank
    raise TypeError(e)


def _element(e: ast.Index) -> str:
    """`x[i]`; of x[].a, the member of an array of structs, x[i].a."""
    text, *more = e.array.split("[]")
    for n, index in enumerate(e.indices):
        text += f"[{expression(index)}]" + (more[n] if n < len(more) else "")
    return text


def parameter(p: ast.Parameter) -> str:
    star = "*" if p.pointer else ""
    return f"{'const ' if p.const else ''}{p.type}{star}{' __restrict__' if p.restrict else ''} {p.name}"


def statements(body: Iterable[Stmt]) -> list[str]:
    """The lines of a body, indented once; a comment is not repeated for the next statement of the same line."""
    made: list[str] = []
    comment = ""
    for s in body:
        if not isinstance(s, ast.Comment) or s.text != comment:
            made += [INDENT + line for line in _lines(s)]
        if isinstance(s, ast.Comment | ast.For | ast.If):
            comment = s.text if isinstance(s, ast.Comment) else ""
    return made


def _lines(s: Stmt) -> list[str]:
    match s:
        case ast.Declare() | ast.Assign() | ast.AtomicAdd() | ast.CallStmt():
            return [simple(s) + ";"]
        case ast.Barrier():
            return ["__syncwarp();" if s.warp else "__syncthreads();"]
        case ast.Comment():
            return [f"// {s.text}"]
        case ast.Jump():
            return [f"{s.kind}{' ' + expression(s.value) if s.value else ''};"]
        case ast.For(start=None, step=None):
            return [f"while ({expression(s.condition)}) {{", *statements(s.body), "}"]
        case ast.For():
            start, step = simple(s.start) if s.start else "", f" {simple(s.step)}" if s.step else ""
            condition = "" if s.condition == ast.Number("true", "bool") else " " + expression(s.condition)
            head = f"for ({start};{condition};{step}) {{"
            return [*filter(None, [s.pragma]), head, *statements(s.body), "}"]
        case ast.If():
            return _branch(s)


def _branch(s: ast.If) -> list[str]:
    if not s.then:
        s = ast.If(logical_not(s.condition), s.orelse, [])
    lines = [f"if ({expression(s.condition)}) {{", *statements(s.then)]
    match s.orelse:
        case [ast.If() as inner]:
            first, *rest = _branch(inner)
            return [*lines, f"}} else {first}", *rest]
    return [*lines, *(["} else {", *statements(s.orelse)] if s.orelse else []), "}"]


def simple(s: ast.Declare | ast.Assign | ast.AtomicAdd | ast.CallStmt) -> str:
    """A statement of one line, without its semicolon."""
    match s:
        case ast.Declare():
            const = s.const and s.values != ()  # else assignments follow, of its first values
            words = f"{'__shared__ ' if s.shared else ''}{'const ' if const else ''}{s.type} "
            value = f" = {expression(s.value)}" if s.value is not None else ""
            values = f" = {{{', '.join(map(expression, s.values))}}}" if s.values is not None else ""
            return words + s.name + "".join(f"[{expression(d)}]" for d in s.dims) + value + values
        case ast.Assign():
            if s.op in ("+=", "-=") and s.value == ast.Number("1", "int") and isinstance(s.target, ast.Name):
                return s.op[0] * 2 + s.target.name
            return f"{expression(s.target)} {s.op} {expression(s.value)}"
        case ast.AtomicAdd():
            return f"{s.by}(&{expression(s.target)}, {expression(s.value)})"
        case ast.CallStmt():
            return f"{s.function}({', '.join(map(expression, s.arguments))})"


def function(head: str, params: Iterable[str], body: list[Stmt]) -> str:
    """A function, with its parameters in lines of at most 116 columns."""
    pieces = f"{head}({'|'.join(f'{p},' for p in params)}".removesuffix(",") + ") {"
    glued = pieces.replace(" ", "\xa0").replace("|", " ")  # break lines between parameters alone
    lines = wrap(glued, 116, subsequent_indent=INDENT, break_long_words=False, break_on_hyphens=False)
    return "\n".join([*(line.replace("\xa0", " ") for line in lines), *statements(body), "}"])
