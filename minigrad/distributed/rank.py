"""One rank of a job: runs the script, and leaves its output, its values and its end in a folder of its own.

`mpiexec -n 4 python -m mpi4py rank.py FOLDER RANKS DEADLINE NAMES SCRIPT ARGUMENTS...`, as `launch` has it. It is a
program and no part of the package: nothing here imports minigrad, so that a job starts quickly.

mpiexec ends all ranks when one dies, and neither its status nor its message says reliably which one it was. So the
process that mpiexec knows only waits for another, the rank, and writes its status down before mpiexec can notice.
"""

import faulthandler
import json
import os
import pickle
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

NOTE = 256  # bytes for the collective that a rank has come to, in which minigrad notes it; others leave it empty


def main() -> None:
    folder, ranks, deadline, names, *sys.argv = sys.argv[1:]
    own = Path(tempfile.mkdtemp(dir=folder))
    output = os.open(own / "output", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):  # of C, too
        os.dup2(output, stream)
    if child := os.fork():
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        write(own, "status", {"code": code})
        os._exit(code if code >= 0 else 128 - code)
    (own / "call").write_bytes(bytes(NOTE))
    os.environ["MINIGRAD_CALL"] = str(own / "call")
    faulthandler.enable((own / "crash").open("w"))
    faulthandler.dump_traceback_later(max(0.01, float(deadline) - time.time()), file=(own / "where").open("w"))
    run(own, int(ranks), names.split())
    faulthandler.cancel_dump_traceback_later()


def run(own: Path, ranks: int, names: list[str]) -> None:
    """Run the script as Python does, and abort the job if it raises."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    library = " ".join(MPI.Get_library_version().replace("Version:", "").splitlines()[0].partition(",")[0].split())
    write(own, "rank", {"rank": comm.rank, "size": comm.size, "library": library, "script": sys.argv[0]})
    if comm.size != ranks:
        sys.exit(1)  # `launch` says why
    try:
        found = values(str(own.parent), names)
    except BaseException as error:  # SystemExit and KeyboardInterrupt, too
        write(own, "end", described(error))
        sys.stdout.flush()
        if not MPI.Is_finalized():
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # MPI would print that it aborts, below the script's output
            comm.Abort(1)
        sys.exit(1)
    (own / "values").write_bytes(found)
    write(own, "end", {"error": ""})


def values(folder: str, names: list[str]) -> bytes:
    """The variables of these names, pickled, after the script has run."""
    script = sys.argv[0]
    home = os.path.dirname(script)
    sys.path[0] = "" if home == folder else home
    sys.stdout.reconfigure(encoding="utf-8", line_buffering=True)  # type: ignore[union-attr]
    sys.stderr.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    sys.modules["__main__"] = module = ModuleType("__main__")
    module.__file__ = script
    try:
        exec(compile(Path(script).read_bytes(), script, "exec"), module.__dict__)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    if missing := [name for name in names if name not in module.__dict__]:
        raise NameError(f"the code has no variable `{missing[0]}`, which was asked for")
    return pickle.dumps({name: pickled(name, module.__dict__[name]) for name in names})


def pickled(name: str, value: Any) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception as error:  # whatever the value's class raises
        raise TypeError(f"`{name}` cannot be sent back: {error}. Give numbers, arrays, or lists of them.") from None


def described(error: BaseException) -> dict[str, Any]:
    """An error in words, the line of the script, and the traceback from the script on."""
    script, trace = sys.argv[0], error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename != script:
        trace = trace.tb_next
    lines = [at.lineno for at in traceback.extract_tb(trace) if at.filename == script]
    if isinstance(error, SyntaxError) and error.filename == script:
        lines = [error.lineno]
    said = traceback.format_exception_only(error)[-1].strip()
    whole = "".join(traceback.format_exception(type(error), error, trace)) if trace else said
    what = f"ended the job by sys.exit({error.code!r})" if isinstance(error, SystemExit) else f"raised {said}"
    return {"error": what, "line": lines[-1] if lines else None, "trace": whole}


def write(own: Path, name: str, content: dict[str, Any]) -> None:
    """A file that is whole as soon as it is there: the job may end at any time."""
    part = own / f"{name}.part"
    part.write_text(json.dumps({"time": time.time(), **content}))
    part.replace(own / name)


if __name__ == "__main__":
    main()
