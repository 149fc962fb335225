"""07: four neighbors with one instruction, where there are four."""

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

four_at_once = KernelExercise(
    "07",
    task=r"""
**Fewer requests.** $y = s\,x$. Each thread has four neighboring elements and moves them one by one, so a warp makes
four requests to read and four to write. One of each is enough: CUDA's `float4` is four floats, `.x`, `.y`, `.z` and
`.w`,

    float4 four = *reinterpret_cast<const float4*>(&x[i]);

reads the four that begin at `x[i]`, and `*reinterpret_cast<float4*>(&y[i]) = four;` writes four. The address must be
a multiple of 16 bytes. $n$ need not be a multiple of four: the last thread may have one, two or three elements. The
score counts requests.
""",
    solution="""
extern "C" __global__ void four_at_once(const float* x, float* y, float s, int n) {
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    //> for (int j = i; j < i + 4 && j < n; ++j) {
    //>     y[j] = s * x[j];
    //> }
    if (i + 3 < n) {
        float4 four = *reinterpret_cast<const float4*>(&x[i]);
        four.x *= s;
        four.y *= s;
        four.z *= s;
        four.w *= s;
        *reinterpret_cast<float4*>(&y[i]) = four;
    } else {
        for (int j = i; j < n; ++j) y[j] = s * x[j];
    }
    //<
}
""",
    score="requests",
    hints=[
        "i is a multiple of four, so &x[i] is a multiple of 16 bytes. Only the end of the array needs care.",
        "a thread has all four if its last one, i + 3, is below n. Two ways, then: with four of them a float4, else "
        "the "
        "loop as it was.",
        "read a float4, multiply .x, .y, .z and .w by s, write it to &y[i]. In the else-branch the loop goes from i "
        "to "
        "n - 1: at most three elements, or none.",
    ],
    wrong=[
        Wrong("i + 3 < n", "i < n", "out-of-bounds",
              "The first of the four is inside, and the last may not be: ask for i + 3."),
        Wrong("i + 3 < n", "i + 2 < n", "out-of-bounds", "The last of the four is x[i + 3]."),
        Wrong(" else {\n        for (int j = i; j < n; ++j)", " else {\n        for (int j = i; j < n; j += 2)",
              "never-written", "The rest is moved one by one: ++j."),
        Wrong(" else {\n        for (int j = i; j < n; ++j) y[j] = s * x[j];\n    }", "", "never-written",
              "One to three elements at the end are left: they are moved one by one."),
        Wrong("j < n; ++j) y[j]", "j < i + 4; ++j) y[j]", "out-of-bounds",
              "In the last part the array ends at n, before i + 4."),
        Wrong("int j = i; j < n", "int j = i + 1; j < n", "never-written", "The rest begins at i itself."),
        Wrong("        four.w *= s;\n", "", "value", "All four are multiplied: .w is left out."),
        Wrong("four.y *= s", "four.x *= s", "value", "Each of the four once: .x is multiplied twice, .y not at all."),
        Wrong("float4*>(&y[i]) = four", "float4*>(&y[0]) = four", "race",
              "All threads write to the same place: &y[i]."),
        Wrong("const float4*>(&x[i])", "const float4*>(&x[i + 1])", "misaligned",
              "i + 1 is no multiple of four, so this address is no multiple of 16 bytes."),
        Wrong("const float4*>(&x[i])", "const float4*>(x)", "value", "Each thread has four of its own, from x[i] on."),
    ],
    reference=lambda x: 3 * x,
    arguments=lambda x: {"y": x.shape, "s": 3.0, "n": x.size},
    inputs=[(numbers(n),) for n in (1, 4, 7, 130, 1023, 1024)],
    grid=("n/4*BLOCK",),
    tunables={"BLOCK": (32, 64)},
)  # fmt: skip
