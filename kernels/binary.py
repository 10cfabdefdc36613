"""What is in the binary of a kernel ("cubin")? NVIDIA's `cuobjdump` and `nvdisasm` say it; Triton's wheel brings both.

registers, spills      values that did not fit into registers live in slow "local" memory; there must be none
16-byte loads          the widest load that a thread has, for K and V: `LDG...128`, or asynchronous `LDGSTS...128`
tensor cores           matrix instructions: HMMA, HGMMA (Hopper), UTC..MMA (Blackwell)
loop                   instructions of the innermost loop, the longest where there are several: for kernels that
                       attend, what one warp does for a tile of tokens
"""

import re
import subprocess
import tempfile
from pathlib import Path

import triton

from pagedlab.errors import PagedlabError


def tool(name: str) -> str:
    """The path of one of NVIDIA's programs in Triton's wheel. Raises PagedlabError where it is not there."""
    path = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name
    if not path.exists():
        raise PagedlabError(f"Triton's wheel has no {name}; install triton from the Python package index (Linux).")
    return str(path)


def read_binary(cubin: bytes) -> dict[str, int]:
    """Figures of a cubin: registers, stack and local bytes, counts of the instructions named in this file's head."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        usage = subprocess.run(
            [tool("cuobjdump"), "--dump-resource-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
        code = subprocess.run([tool("nvdisasm"), "-c", file.name], capture_output=True, text=True, check=True).stdout
    figure = {name: int(number) for name, number in re.findall(r"(REG|STACK|LOCAL):(\d+)", usage)}
    return {
        "registers": figure["REG"],
        "stack_bytes": figure["STACK"] + figure["LOCAL"],
        "spill_instructions": len(re.findall(r"\b(?:LDL|STL)\b", code)),
        "loads_16_bytes": len(re.findall(r"\b(?:LDG|LDGSTS)\.[\w.]*\b128\b", code)),
        "loads": len(re.findall(r"\b(?:LDG|LDGSTS)\.", code)),
        "stores_16_bytes": len(re.findall(r"\bSTG\.[\w.]*\b128\b", code)),
        "tensor_core_instructions": len(re.findall(r"\b(?:HMMA|HGMMA|QGMMA|UTC\w*MMA)\b", code)),
        "loop_instructions": loop_instructions(code),
    }


def loop_instructions(code: str) -> int:
    """Instructions of the innermost loop in what `nvdisasm` prints, the longest of several; 0 where there is none.

    A loop is what lies between a label and a branch back to it.
    """
    count, labels, loops = 0, {}, []
    for line in code.splitlines():
        if label := re.match(r"\.(\w+):", line):
            labels[label[1]] = count
        elif re.match(r"\s+/\*[0-9a-f]{4,}\*/", line):  # an instruction, behind its address
            count += 1
            back = re.search(r"\bBRA\b.*`\(\.(\w+)\)", line)
            if back and back[1] in labels:
                loops.append((labels[back[1]], count))
    inner = [(a, b) for a, b in loops if not any((a, b) != (c, d) and a <= c and d <= b for c, d in loops)]
    # A kernel ends in a branch to itself, which is never reached.
    return max((b - a for a, b in inner if b - a > 1), default=0)
