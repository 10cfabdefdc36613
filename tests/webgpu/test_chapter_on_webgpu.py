"""A chapter that PAGEDLAB_DEVICE puts on WebGPU, from top to bottom. (00, 03 and 05 run there as well; on an adapter
that is software they take minutes.)"""

import nbformat
import pytest
from nbclient import NotebookClient


@pytest.mark.slow
@pytest.mark.notebook
def test_chapter_02_reads_a_block_out_of_the_adapters_memory(gpu, root, monkeypatch):
    monkeypatch.setenv("PAGEDLAB_DEVICE", "webgpu")
    notebook = nbformat.read(root / "notebooks" / "02_virtual_memory.ipynb", as_version=4)
    folder = {"metadata": {"path": str(root / "notebooks")}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=folder).execute()
    outputs = (output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs)
    printed = "".join(output.get("text", "") for output in outputs)
    assert f"[live · {gpu.name} · " in printed and "live · CPU" not in printed
    assert "the bytes at the address are the key's: True" in printed
    assert "the device's own block holds the same numbers: True" in printed
