"""Runs notebooks from their first cell to their last and stores them: `make notebooks`, `make notebooks ONLY="07 08"`.

They are stored as a machine without a GPU shows them, without the times of cells, and without widgets, which are
useless without a running kernel. A notebook with a cell that fails stays unchanged.
"""

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "notebooks"
WIDGET = "application/vnd.jupyter.widget-view+json"


def run(notebook: nbformat.NotebookNode) -> None:
    """Execute all cells and store their outputs in the notebook."""
    metadata = notebook.metadata.copy()  # without the version of Python that runs it now
    client = NotebookClient(
        notebook,
        timeout=600,
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(FOLDER)}},
    )
    client.execute()
    notebook.metadata = metadata
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop(WIDGET, None)


def main(numbers: list[str]) -> None:
    """Run the notebooks whose names begin with these numbers, or all."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ["MINIGRAD_PROGRESS"] = "off"  # stored outputs are without kernels of the reader's own
    paths = [path for path in sorted(FOLDER.glob("*.ipynb")) if path.name.startswith(tuple(numbers) or "")]
    for path in paths:
        print(path.name, flush=True)
        notebook = nbformat.read(path, as_version=4)
        run(notebook)
        nbformat.write(notebook, path)
    if not paths:
        sys.exit(f"no notebook begins with {' or '.join(numbers)}.")


if __name__ == "__main__":
    main(sys.argv[1:])
