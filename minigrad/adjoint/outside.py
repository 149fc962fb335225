"""What C++ has and the differentiable subset has not, each with its way out."""

from minigrad.adjoint.tokens import Token
from minigrad.adjoint.types import plain

WORDS = {
    "switch": "write if and else if", "goto": "write if, or leave a loop with break",
    "do": "write its body once, and then while", "asm": "write CUDA C++",
    "template": "write the function for the one type that it is used with", "typedef": "use #define",
    "using": "use #define",
    "struct": "write a variable, or an array, for each member", "class": "write a variable for each member",
    "union": "write a variable for each member", "enum": "use #define for each number",
    "namespace": "write the names without it", "std": "write the name without std::",
    "try": "an adjoint knows no exceptions", "throw": "an adjoint knows no exceptions",
    "static_assert": "leave it out", "assert": "leave it out", "printf": "leave it out",
    "new": "declare an array of fixed extent", "delete": "declare an array of fixed extent",
    "sizeof": "write the number of bytes", "nullptr": "pass an array for every pointer",
    "reinterpret_cast": "pass the array with the type that it has", "const_cast": "pass the array without const",
    "dynamic_cast": "write (double)x", "warpSize": "write 32", "and": "write &&", "or": "write ||", "not": "write !",
    "::": "write the name alone",
    "auto": "write the type", "case": "write if and else if", "default": "write if and else if",
}  # fmt: skip
CALLS = {
    "atomic": "of the atomics only atomicAdd(&y[i], value); is within, as a statement",
    "__shfl": "pass the value on through a __shared__ array",
    "__sync": "use __syncthreads();",
    "__threadfence": "leave it out: another thread's value is had by __syncthreads()",
    "sincos": "call sin and cos",
    "__fdivide": "write a / b",
    "cooperative": "use threadIdx and blockIdx",
}


def word(token: Token) -> str | None:
    """The sentence for a word of the language that is outside the subset; None for any other."""
    way = WORDS.get(token.text)
    return way and f"{token.text} is outside the differentiable subset; {way}."


def call(name: str) -> str:
    """The way out for a function without a derivative."""
    if plain(name.removeprefix("__")):
        return f"call {name.removeprefix('__')}"  # of __expf and its like
    ways = [way for start, way in CALLS.items() if name.startswith(start)]
    return ways[0] if ways else "write it as a __device__ function of what has one, above this line"
