"""The words of the course: for each its one meaning, and the notebook that introduces it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property
from html import escape
from pathlib import Path

from minigrad.display import Table, Tabular, table
from minigrad.errors import require
from minigrad.source import PACKAGE

NOTEBOOKS = PACKAGE.parent / "notebooks"  # a wheel comes without them

# By notebook: the word, or in brackets the word and the pattern of the spellings that count as its use, then its
# meaning. Without a pattern the word itself counts, and its plural with s. Case is of no account, except in capitals.
# An everyday word that is a term as well ("stage") has a pattern that leaves the everyday uses out. A pattern between
# backquotes is one of code: it is looked for in the pieces of code within the prose.
_COURSE: dict[str, dict[str | tuple[str, str], str]] = {
    "00": {
        "automatic differentiation": "Finding the gradient of a whole calculation by a program that applies the rule "
        "of each step, from the last step to the first.",
        ("GPU", r"GPUs?"): "A graphics processor: a chip that does the same small thing to many numbers at once.",
        "kernel": "A function that runs on the GPU, started from outside of it.",
        ("tensor", r"tensors?(?! cores?| maps?)"): "An array that remembers how it was calculated.",
        "gradient": "For each number of an array, how fast the result grows when that number grows.",
        "scalar": "A single number.",
        "tape": "The record of every step of a calculation. Walking back along it gives the gradients.",
        ("leaf", r"leaf|leaves"): "A tensor that you made yourself with requires_grad=True, rather than calculated. "
        "backward stores its gradient.",
        ("device", r"devices?"): "A place where arrays lie and operations run: numpy, sim, or cuda.",
        ("forward", r"forward(?: pass)?"): "From the inputs to the result: the calculation itself.",
        ("backward", r"backward(?: pass)?"): "From the result to the inputs: the walk back that finds the gradients.",
    },
    "01": {
        "thread": "One worker of a kernel. It runs the whole text of the kernel with numbers of its own.",
        "block": "A group of threads that start together on the same multiprocessor. All blocks of a launch have "
        "the same number of threads, at most 1024.",
        "grid": "All the blocks of a launch.",
        ("launch", r"launch(?:es|ed|ing)?"): "Starting a kernel: its arguments, the number of blocks, and the threads "
        "of a block.",
        ("idle", r"idle"): "Said of a thread that has no element, or of a piece of hardware with nothing to do.",
        "guard": "The if that keeps a thread without an element from reading or writing.",
        "host": "The computer around the GPU: its CPU, its memory, and the Python program that launches kernels.",
        ("multiprocessor", r"multiprocessors?|(?-i:SMs?)"): "The part of a GPU that runs blocks, also called SM. It "
        "has its own registers, shared memory and cores. An H200 has 132.",
        "core": "A circuit in a multiprocessor that multiplies and adds. It has no text of its own to follow: an "
        "instruction of a warp uses 32 cores at once.",
        "warp": "32 neighboring threads of a block, which the hardware runs together, usually one instruction at "
        "a time for all of them.",
        "register": "A place in a multiprocessor that holds one variable of one thread, 4 bytes. The fastest memory.",
        ("shared memory", r"shared memory|shared arrays?"): "A small, fast memory in each multiprocessor. The threads "
        "of a block use it together.",
        ("global memory", r"global memory"): "The large memory of the GPU, in which arrays lie. Every thread can "
        "reach it, and it is the slowest on the GPU.",
        ("cache", r"caches?|cached"): "A memory that keeps copies of what was fetched last, so that it need not be "
        "fetched again.",
        ("L1", r"L1"): "The cache of one multiprocessor. It is in the same place as the shared memory.",
        ("L2", r"L2"): "The cache between all multiprocessors and global memory.",
        ("latency", r"latency|latencies"): "The time from asking for a number to having it.",
        ("bandwidth", r"bandwidths?"): "The bytes that can be moved in a second.",
        ("BLOCK", r"`BLOCK`"): "The number of threads of a block, where the compiler is given it as a constant: "
        'defines={"BLOCK": 128}.',
        ("real", r"`real`"): "float or double, as the arrays of a call ask. minigrad's own kernels are written with "
        "it.",
        ("? :", r"`[^?]+\?[^:]+:.*`"): "condition ? a : b is a where the condition holds, and b elsewhere.",
        "upstream gradient": "The gradient with respect to the output of an operation, which the way back starts "
        "from: dy.",
        "central difference": "A slope measured by two small steps: (f(x + e) - f(x - e)) / (2e).",
        ("memory-bound", r"memory[- ]bound"): "Limited by the time that moving the data takes, not by arithmetic.",
    },
    "02": {
        "portion": "The part of a gradient that comes from one use of a value. All portions are added up.",
        "chain rule": "The rate of a chain of steps is the product of the rates of its steps.",
        ("vjp", r"vjps?"): "Vector-Jacobian product: a function that takes the upstream gradient of an operation and "
        "gives the gradients of its inputs.",
        ("topological order", r"topological(?:ly| order)?"): "An order in which each value comes after everything "
        "that uses it: the order of the walk back.",
        "pointer": "The address of memory: a number that says where an array begins.",
    },
    "03": {
        ("elementwise", r"elementwise"): "Done to each element by itself: y[i] depends on x[i] alone.",
        ("broadcasting", r"broadcast(?:s|ed|ing)?"): "Repeating an array along an axis where its extent is 1, so that "
        "it fits a larger one.",
        ("axis", r"axis|axes"): "One direction of an array: a matrix has two, axis 0 down and axis 1 across.",
        "extent": "The size of an array along one axis.",
        "stride": "How many elements lie in memory from one element to the next along an axis.",
        ("threadIdx.y", r"`.*threadIdx\.y.*`"): "The thread's number along the second direction of its block; "
        "blockIdx.y is that of the block. A third direction has z.",
        "view": "The same memory read with another shape or other strides, without a copy.",
        "kink": "A corner of a function, where it has no single slope.",
    },
    "03b": {
        ("fusion", r"(?:kernel )?fusion|fuse[sd]?|fusing"): "One kernel in place of several, so that the numbers "
        "between them stay in registers.",
        ("trace", r"traces?|traced"): "A run of a function that notes which operations it calls.",
        ("wide", r"`wide`"): "The type of arithmetic with numbers of type real: real itself, or float where those of "
        "an array have two bytes.",
    },
    "04": {
        "lane": "One of the 32 places of a warp, numbered 0 to 31.",
        "sector": "32 neighboring bytes, the smallest piece that global memory brings or takes.",
        "request": "One read or write instruction of a warp: up to 32 addresses at once.",
        ("coalesced", r"(?:un)?coalesced|coalesc(?:e|es|ing)"): "Said of a request whose lanes use every byte of the "
        "sectors that it touches.",
        "tile": "A rectangular part of a matrix, on which one block works.",
        ("TILE", r"`.*\bTILE\b.*`"): "The side of a square tile, as a constant that the compiler is given.",
        "barrier": "A line that no thread of a block passes before all of them have reached it: __syncthreads().",
        ("phase", r"phases?"): "What a kernel does from one barrier to the next.",
        ("bank", r"banks?"): "One of the 32 parts of shared memory, each of which serves one address at a time.",
        "bank conflict": "Several lanes of a request that need different addresses of one bank, and so wait for each "
        "other.",
        "wavefront": "One pass of a request through shared memory, in which each bank serves one address.",
    },
    "05": {
        "reduction": "Many numbers made into one, as by a sum or a maximum.",
        ("race", r"(?:data )?races?|racy"): "Two threads use one address, at least one of them writes, and nothing "
        "says which comes first.",
        ("atomic", r"atomics?|atomically"): "Said of a read, change and write that no other thread can come between.",
        ("divergence", r"diverge(?:nce|nt|s|d)?|diverging"): "Lanes of one warp that take different branches, which "
        "then run one after the other.",
        ("&y[i]", r"`.*&\w+\[.*`"): "The address of y[i], for a function that changes it in place, as atomicAdd does.",
        ("[=]", r"`.*\[=\].*`"): "The beginning of a function without a name in C++, which copies the variables that "
        "it uses: [=](int i) { return x[i]; }.",
        "shuffle": "An instruction by which a lane reads a register of another lane of its warp.",
        "softmax": "exp of each number of a row, divided by the sum of the row: numbers from 0 to 1 that add up to 1.",
        ("scatter", r"scatter(?:s|ed|ing)?"): "Each thread adds what it has wherever it belongs: many writes may meet.",
        ("gather", r"gather(?:s|ed|ing)?"): "Each thread owns one result and reads what it needs for it.",
        ("fence", r"fences?"): "__threadfence(): what a thread wrote before it is there for all other threads before "
        "anything that it writes after it.",
        ("scan", r"scans?"): "All the sums on the way: y[i] is the sum of x[0] to x[i].",
    },
    "06": {},
    "07": {
        ("FLOP", r"FLOPs?|[TG]FLOPs?(?:/s)?"): "One addition or multiplication of floating-point numbers.",
        "tick": "One step of a chip's clock.",
        "instruction slot": "The place of one instruction of a warp. A multiprocessor has four in a tick.",
        "arithmetic intensity": "Floating-point operations for each byte moved.",
        "roofline": "The bound on the speed of a kernel by bandwidth and by arithmetic, drawn over its arithmetic "
        "intensity.",
        "register tile": "The elements of the result that one thread keeps in its registers.",
        "vector load": "One instruction by which a thread reads 16 neighboring bytes.",
        ("[&]", r"`.*\[&\].*`"): "Like [=], but the function uses the variables themselves, and no copies.",
        ("auto", r"`auto`"): "The type of a variable, left to the compiler.",
        ("double buffering", r"double[- ]buffer(?:ing|ed|s)?"): "Two places for tiles: one is filled while the other "
        "is used.",
        ("pipeline stage", r"pipeline stages?"): "A place for one tile on its way through a kernel that fetches "
        "several tiles ahead.",
        "warp tile": "The part of a block's tile on which one warp works.",
    },
    "07b": {
        "tensor core": "A circuit that multiplies two small matrices and adds the product to a third, in one "
        "instruction of a whole warp.",
        ("TF32", r"TF32"): "float32 with 10 bits after the point in place of 23, as tensor cores read it.",
        ("bfloat16", r"bfloat16|bf16"): "A number of 2 bytes with the range of float32 and 7 bits after the point.",
        ("PTX", r"PTX"): "The assembly language of NVIDIA's GPUs.",
        "copy engine": "Hardware of a multiprocessor that copies whole tiles from global to shared memory while its "
        "threads do other work. NVIDIA calls it TMA.",
        "warp group": "Four warps that use the tensor cores together.",
        ("swizzle", r"swizzl(?:e|es|ed|ing)"): "Storing the numbers of each row in another order, so that a column of "
        "a tile lies in different banks.",
        "tensor map": "A description of an array, its address, shape and strides, that the copy engine reads.",
    },
    "08": {
        ("occupancy", r"occupancy|occupancies"): "The warps that are on a multiprocessor, as a part of the most that "
        "it can hold.",
        ("wave", r"waves?"): "The blocks that run on the GPU at the same time.",
        ("tail", r"tails?"): "The time in which the last blocks run, and part of the GPU is idle.",
        ("regret", r"regrets?"): "How much longer the chosen kernel takes than the best one would have.",
        "macro": "A word of a C++ text that the compiler replaces by something else, as BLOCK by 256.",
    },
    "08b": {
        ("runtime", r"runtime"): "The library of CUDA that a host program calls: memory, copies, launches.",
        ("PCIe", r"PCIe"): "The connection between host and GPU, much slower than the GPU's own memory.",
    },
    "09": {
        "logit": "A score before softmax: any number, larger for what is more likely.",
        ("cross-entropy", r"cross[- ]entropy"): "-log of the probability that was given to the right answer.",
        ("mini-batch", r"mini-?batch(?:es)?"): "The few examples from which one step of learning takes its gradient.",
        ("momentum", r"momentum"): "A sum of the last gradients, older ones counting less, which a step follows.",
        "learning rate": "The factor between a gradient and the step against it.",
        "epoch": "One pass over all examples.",
        "confusion matrix": "A table of how often each digit was taken for each other one.",
    },
    "10": {
        "window": "A small array of numbers that is laid on each place of an image in turn.",
        ("convolution", r"convolutions?|convolv(?:e|es|ed|ing)"): "At each place of a window, the sum of its numbers "
        "times the pixels under them.",
        "channel": "One of the images that belong together, as red, green and blue, or the results of several windows.",
        ("patch", r"patch(?:es)?"): "The pixels under one place of a window.",
        ("im2col", r"im2col"): "A copy of an image with a column for each patch, so that a convolution becomes a "
        "matrix product.",
        ("pooling", r"poolings?"): "One number for each place of a window, the largest or the mean, which makes an "
        "image smaller.",
    },
    "10b": {
        ("NCHW", r"NCHW"): "The order of images in memory that goes column by column, then row by row, then channel by "
        "channel.",
        ("channels last", r"channels last|NHWC"): "The order of images in memory in which all channels of a pixel lie "
        "next to each other, also called NHWC.",
        "tap": "One place of a window, and the pixel that it meets.",
        "halo": "The pixels around a tile that its windows reach.",
        ("parity", r"parit(?:y|ies)"): "The remainder of a row's or a column's number, divided by the stride.",
        "floor": "The time of a kernel's arithmetic at the chip's peak, or of its bytes at a copy's speed, the longer "
        "one.",
    },
    "11": {
        ("residual block", r"residual (?:blocks?|networks?)"): "A part of a network that computes f(x) + x: its "
        "layers f learn only what is missing in x.",
        ("stage of a network", r"stages? of (?:a network|residual blocks)"): "Residual blocks in a row with the same "
        "number of channels. From one stage to the next the images get half as wide and high, and the channels twice "
        "as many.",
        ("shortcut", r"shortcuts?"): "The way by which x reaches the sum of a residual block around its layers.",
        ("batch norm", r"batch norms?"): "A layer that gives each channel the mean 0 and the standard deviation 1 over "
        "all images of the batch, and then a learned factor and addend.",
        ("running statistics", r"running (?:statistics|means?|variances?)"): "A mean and a variance of each channel, "
        "averaged over the batches of the training. A batch norm uses them in evaluation.",
        ("evaluation", r"evaluation"): "The mode in which a trained network is used: its answer for an "
        "image does not depend on the others of the batch.",
        ("saliency", r"saliency"): "The size of the gradient of a logit with respect to each pixel.",
        ("fold", r"fold(?:s|ed|ing)?"): "Multiply the factors of a batch norm into the weights of the convolution "
        "before it, and add its addends to the bias.",
        ("inference", r"inferences?"): "The use of a trained network: the forward pass alone.",
    },
    "12": {
        ("attention", r"attention(?! to\b)"): "The mean of all values, weighted by how well their keys fit a query.",
        ("query", r"quer(?:y|ies)"): "A vector that asks: its dot product with a key is the score of that key.",
        "head": "One of several attentions to the same text, with queries, keys and values of its own.",
        "online softmax": "A softmax in one pass: the sums so far are scaled down when a larger score comes.",
        "invariant": "A sentence that holds after each turn of a loop.",
        "causal mask": "It lets a query see the keys up to its own place, and none of the future.",
    },
    "13": {
        "transformer": "A network of attention, and of small networks that work on each place alone.",
        "vocabulary": "The set of numbers, with their meanings, from which a text is made.",
        "embedding": "The vector of learned numbers that a word gets from a table.",
        "self-attention": "Attention whose queries, keys and values are all made of the same text.",
        "residual stream": "The sum that goes straight through a transformer: each part reads it, and adds to it.",
        "layer norm": "Mean 0 and deviation 1 over the numbers of each vector, then a learned factor and addend.",
        "warm-up": "The first steps of a training, in which the learning rate rises.",
        "tokenizer": "It turns a text into numbers, and numbers into a text.",
        "key-value cache": "The keys and values of all earlier places, kept while a text is written.",
    },
    "14": {
        ("recurrent network", r"recurrent (?:neural )?networks?"): "A network that reads a sequence step by step, and "
        "hands a state from each step to the next.",
        "hidden state": "The vector that a recurrent network hands on from step to step: what it knows of the past.",
        ("truncated backpropagation", r"truncated backpropagation(?: through time)?"): "Training on parts of a "
        "sequence: the state goes on from part to part, and the gradient ends where its part begins.",
        ("gradient clipping", r"gradient clipping"): "Making all gradients smaller by one factor where their norm is "
        "above a limit.",
        "LSTM": "A recurrent network with a second state, its cell, to which each step adds, and with three gates.",
        "GRU": "A recurrent network with two gates, whose new state is a mix of the old one and of a new value.",
        "gate": "A vector of numbers from 0 to 1, made by a sigmoid, that lets a part of each number of another vector "
        "through.",
        "CPU core": "A part of a CPU that runs one program text at a time. A laptop has 4 to 16.",
        ("OpenMP", r"OpenMP"): "A part of C++ compilers that runs marked pieces of a text by several threads of the "
        "CPU.",
        ("MPI", r"MPI"): "A standard for programs that run as several copies and send each other messages.",
        "rank": "One of the copies of a program that MPI has started. It has a number, and a memory of its own.",
        "all-gather": "A message in which each rank sends its piece to all others; afterwards all have all pieces.",
        ("wavefront of layers", r"wavefronts? of layers"): "A schedule in which each layer of a recurrent network is "
        "one step behind the layer below.",
        "speed-up": "How many times as fast something gets by more threads, ranks or blocks.",
        "Amdahl's law": "With a share s of the work that is not shared out over n, the speed-up is 1 / (s + (1 - s) / "
        "n): always below 1 / s.",
        "cluster": "A few blocks that start together on neighboring multiprocessors. They have a barrier of their own, "
        "and reach each other's shared memory.",
        "persistent kernel": "A kernel whose blocks stay on the chip for many steps, and keep what does not change in "
        "their registers.",
        ("grid barrier", r"grid barriers?|barriers? of the grid"): "A barrier of all blocks of a grid: a counter in "
        "global memory, with a fence before and after.",
        ("cooperative launch", r"cooperative launch(?:es)?"): "A launch whose blocks are all on the chip at once, so "
        "that they may wait for each other.",
    },
    "15": {
        "adjoint": "The kernel that takes the gradients of another kernel's outputs and adds up those of its inputs.",
    },
    "15b": {
        (">>", r"`.*[^>]>>[^>].*`"): "k >> j halves the whole number k, j times, and drops what is left over.",
        ("checkpoint", r"checkpoint(?:s|ed|ing)?"): "A value stored on the way forward, from which the way back "
        "computes the following ones again.",
    },
    "16": {
        ("sensitivity", r"sensitivity|sensitivities"): "A gradient with respect to a quantity of physics.",
        "stencil": "A kernel in which each place of a grid reads its neighbors.",
    },
    "17": {
        ("data parallelism", r"data[- ]parallel(?:ism)?"): "Training on several GPUs, each with the whole network "
        "and a part of each batch; they average gradients.",
        ("NCCL", r"NCCL"): "NVIDIA's library for messages between GPUs.",
        "collective": "A call that all ranks make together.",
        "all-reduce": "A collective after which each rank has the sum, or the mean, of what all ranks have.",
        "reduce-scatter": "A collective after which each rank has one piece of the sum of what all ranks have.",
        "bucket": "Several gradients that travel in one message.",
        "deadlock": "Several wait for each other, and none can go on.",
        "weak scaling": "The work grows with the number of GPUs, and the time should stay the same.",
        "strong scaling": "The work stays the same, and the time should shrink with the number of GPUs.",
        ("efficiency", r"efficiency|efficiencies"): "The part of the speed-up that is left: 1 where n GPUs do n "
        "times as much in the same time.",
    },
}


@dataclass(frozen=True)
class Word:
    """A word of the course, its meaning, the notebook that introduces it, and the pattern of its uses in prose."""

    name: str
    notebook: str  # its number: 03b
    meaning: str
    uses: str

    @property
    def code(self) -> bool:
        """True for a piece of code, as `threadIdx.y`."""
        return self.uses.startswith("`")

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The uses as whole words, or the piece of code. Where it begins with two capitals or digits, case counts."""
        if self.code:
            return re.compile(self.uses[1:-1])
        capitals = re.match(r"[A-Z0-9\[]{2}", self.uses) is not None
        return re.compile(rf"(?<![\w-])(?:{self.uses})(?!\w)", 0 if capitals else re.I)

    @property
    def path(self) -> Path | None:
        """The notebook's file, where there is one."""
        return next(NOTEBOOKS.glob(f"{self.notebook}_*.ipynb"), None)

    def __repr__(self) -> str:
        return f"{self.name} (notebook {self.notebook}): {self.meaning}"

    def _repr_html_(self) -> str:
        return f"<p><b>{escape(self.name)}</b> ({self.link('notebook ')}): {escape(self.meaning)}</p>"

    def link(self, before: str = "") -> str:
        """HTML: a link to the notebook, in the folder of the one that shows it."""
        text = f"{before}{self.notebook}"
        return f'<a href="{self.path.name}">{text}</a>' if self.path else text


@dataclass(frozen=True, repr=False)
class Glossary(Tabular):
    """Words in the order of the alphabet."""

    words: tuple[Word, ...]

    def __iter__(self) -> Iterator[Word]:
        return iter(self.words)

    def table(self) -> Table:
        return table([(word.name, word.notebook, word.meaning) for word in self], ("word", "notebook", "meaning"))

    def _repr_html_(self) -> str:
        left = 'style="text-align:left;vertical-align:top"'
        cells = ((f"<b>{escape(word.name)}</b>", word.link(), escape(word.meaning)) for word in self)
        rows = "".join("<tr>" + "".join(f"<td {left}>{cell}</td>" for cell in row) + "</tr>" for row in cells)
        head = "".join(f"<th {left}>{header}</th>" for header in ("word", "notebook", "meaning"))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


@cache
def course() -> dict[str, Word]:
    """All words by name, in the order of the notebooks that introduce them."""
    words: dict[str, Word] = {}
    for notebook, entries in _COURSE.items():
        for key, meaning in entries.items():
            name, uses = (key, re.escape(key) + "s?") if isinstance(key, str) else key
            if name in words:
                raise ValueError(f"{name!r} has two meanings, in {words[name].notebook} and in {notebook}.")
            words[name] = Word(name, notebook, meaning, uses)
    return words


def word(name: str | None = None) -> Word | Glossary:
    """The meaning of a word of the course: `mg.word("sector")`, or any spelling of it; without a name all words.

    Raises ValueError for a word that is not in the list.
    """
    words = course()
    if name is None:
        return Glossary(tuple(sorted(words.values(), key=lambda each: each.name.lower())))
    require("mg.word", name, str, "a word of the course")
    spelled = (each for each in words.values() if not each.code and each.pattern.fullmatch(name.strip()))
    if found := words.get(name) or next(spelled, None):
        return found
    near = get_close_matches(name.lower(), words, 3) or [each for each in words if name.lower() in each][:3]
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise ValueError(f"{name!r} is not a word of the course; {hint}mg.word() lists them.")
