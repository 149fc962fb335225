"""17: the order in which a rank sends its buckets, which must be that of all others."""

from collections.abc import Callable

from minigrad.lab.exercises import PythonExercise, Wrong


def simulated(send_in_order: Callable, buckets: list[str], arrivals: str) -> list[tuple[int, int]]:
    """The messages of one rank, for gradients that arrive in this order."""
    return [(int(count), int(number)) for count, number in send_in_order([list(names) for names in buckets], arrivals)]


def truth(buckets: list[str], arrivals: str) -> list[tuple[int, int]]:
    """A bucket leaves once the gradients of it and of all buckets before it are there."""
    return [
        (max(arrivals.index(name) + 1 for names in buckets[: number + 1] for name in names), number)
        for number in range(len(buckets))
    ]


send_in_order = PythonExercise(
    "17",
    task="""
**Buckets in another order on one rank.** All ranks have the same buckets of parameters: `[["f", "e"], ["d", "c"],
["b", "a"]]`, say. Gradients come one after the other, usually from the last layer to the first; but one rank's batch
takes another branch of the network, and there they come in another order. The function gives the messages of a rank:
how many gradients had arrived when it sent a bucket, and the number of the bucket.

With this version, one rank waits in the message of bucket 1, and the other in that of bucket 0: they hang. Mend it. All
ranks must send in the order 0, 1, 2, whatever comes first, and each message as early as that allows.
""",
    solution="""
def send_in_order(buckets, arrivals):
    missing = [len(bucket) for bucket in buckets]
    sent = []
    for count, name in enumerate(arrivals, 1):
        for number, bucket in enumerate(buckets):
            if name in bucket:
                missing[number] -= 1
                #> if missing[number] == 0:
                #>     sent.append((count, number))
        while len(sent) < len(buckets) and missing[len(sent)] == 0:
            sent.append((count, len(sent)))
                #<
    return sent
""",
    bug=True,
    hints=[
        "which bucket must be the next one? Its number is that of the buckets that have been sent already.",
        "a bucket that is full too early waits. When the one before it leaves, several may leave at once.",
        "while the bucket number len(sent) is full, send it. Mind the end of the list.",
    ],
    wrong=[
        Wrong("while len(sent) < len(buckets) and", "if len(sent) < len(buckets) and", "value",
              "When a late bucket leaves, those behind it may be full as well: all of them can leave now."),
        Wrong("    return sent", "    return [(len(arrivals), number) for _, number in sent]", "value",
              "Everything is sent at the end. The order is right, and nothing overlaps with the backward pass."),
        Wrong("(count, len(sent))", "(len(sent), len(sent))", "value",
              "The first number of a message is that of the gradients that had arrived, which is count."),
        Wrong("(count, len(sent))", "(count, 0)", "value", "This sends bucket 0 again and again."),
        Wrong("len(sent) < len(buckets) and ", "", "raised", "After the last bucket there is no next one to look at."),
    ],
    call=simulated,
    truth=truth,
    given=("buckets", "order of the gradients"),
    cases=[(["fe", "dc", "ba"], order) for order in ("fedcba", "dcfeba", "badcef")] + [(["a"], "a")],
)  # fmt: skip
