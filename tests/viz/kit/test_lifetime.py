"""A lab, its engine and its model live as long as the lab stands on the page or somebody has it, in a real kernel."""

import pytest
from jupyter_client.manager import start_new_kernel

START = """
import gc, ipywidgets, torch
from IPython.display import display
from pagedlab import LLM, SamplingParams
from pagedlab.viz import fragmentation, knobs, memory_map, prefix_hits
from pagedlab.viz.kit.widget import _open
torch.set_num_threads(1)
def engine(name="tiny-random"):
    llm = LLM(name, record=True, num_gpu_blocks_override=64, block_size=4)
    llm.add_request("Hello", SamplingParams(max_tokens=4, ignore_eos=True))
    return llm
"""
MAKE = "llm = engine()\n"


class Kernel:
    def __init__(self):
        self.manager, self.client = start_new_kernel(kernel_name="python3")
        self.run(START)

    def run(self, code, cell=None):
        """Run it as the cell of that id (None: a client that gives cells no ids). Returns what it printed."""
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        content |= {"allow_stdin": False, "stop_on_error": True}
        request = self.client.session.msg("execute_request", content, metadata={"cellId": cell} if cell else {})
        self.client.shell_channel.send(request)
        printed = ""
        while True:
            message = self.client.get_iopub_msg(timeout=120)
            if message["parent_header"].get("msg_id") != request["header"]["msg_id"]:
                continue
            if message["msg_type"] == "stream":
                printed += message["content"]["text"]
            assert message["msg_type"] != "error", message["content"]
            if message["content"].get("execution_state") == "idle":
                return printed

    def labs(self):
        return int(self.run("print(len(_open))", "count"))

    def clear(self):
        self.run("ipywidgets.Widget.close_all(); llm = lab = box = None")

    def stop(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def one_kernel():
    kernel = Kernel()
    yield kernel
    kernel.stop()


@pytest.fixture
def kernel(one_kernel):
    one_kernel.clear()
    return one_kernel


AGAIN = {
    "shown by its name": "lab = memory_map(llm)\nlab",
    "without a name": "memory_map(llm)",
    "displayed": "display(memory_map(llm))",
    "never shown": "lab = memory_map(llm)",
    "with a box for prompts": "lab = prefix_hits(llm, 'Hello')\nlab",
    "in a box of the user's": "box = ipywidgets.VBox([ipywidgets.HBox([memory_map(llm)]), ipywidgets.Text()])\nbox",
    "in a box without a name": "ipywidgets.VBox([memory_map(llm), ipywidgets.IntSlider()])",
}


@pytest.mark.slow
def test_a_cell_that_runs_again_frees_what_it_showed_before(kernel):
    for name, code in AGAIN.items():
        for cell in ("one", None):
            for _ in range(3):
                kernel.run(MAKE + code, cell)
            assert kernel.labs() == 1, (name, cell)
            kernel.run("llm = lab = box = None", cell) if cell else kernel.clear()
            assert kernel.labs() == 0, (name, cell)
    kernel.run("for _ in range(5):\n    llm = engine(); lab = memory_map(llm)", "loop")
    assert kernel.labs() == 1


def test_what_stands_on_the_page_stays_whatever_becomes_of_its_name(kernel):
    kernel.run(MAKE + "lab = memory_map(llm)\nlab", "one")
    kernel.run(MAKE + "lab = memory_map(llm)\nlab", "two")
    kernel.run("del lab, llm\n1\n2\n3", "three")
    assert kernel.labs() == 2
    kernel.run("5", "one")
    assert kernel.labs() == 1
    kernel.run("6", "two")
    assert kernel.labs() == 0


def test_a_lab_with_a_name_stays_when_the_cell_that_showed_it_runs_again(kernel):
    kernel.run(MAKE + "lab = memory_map(llm)", "make")
    for _ in range(3):
        kernel.run("lab", "show")
        assert kernel.labs() == 1
    kernel.run("lab.forward()", "show")
    assert kernel.labs() == 1


def test_where_cells_have_no_ids_a_lab_with_a_name_goes_with_its_name(kernel):
    for i in range(4):
        kernel.run(f"{MAKE}lab = memory_map(llm)  # {i}\nlab")
    kernel.run(MAKE + "memory_map(llm)")  # no name to go with
    assert kernel.labs() == 2


@pytest.mark.parametrize("make", ["memory_map(llm)", "prefix_hits(llm, 'Hello')", "fragmentation()"])
def test_a_closed_lab_is_freed(kernel, make):
    for i in range(3):
        kernel.run(f"{MAKE}lab = {make}\nlab", f"make {i}")
    kernel.run("lab.close()", "close")
    kernel.run("del lab, llm", "delete")
    assert kernel.labs() == 2  # those of the other two cells


@pytest.mark.slow
def test_the_knobs_are_freed_with_their_runs(kernel):
    for _ in range(2):
        kernel.run("knobs()", "one")
    assert kernel.labs() == 2  # the board and its memory map
    kernel.run("5", "one")
    assert kernel.labs() == 0


@pytest.mark.slow
def test_model_and_lab_five_times_over_take_the_memory_of_one(kernel):
    memory = "print(next(int(line.split()[1]) // 1024 for line in open('/proc/self/status') if 'VmRSS' in line))"
    code = "llm = engine('smollm2')\nlab = memory_map(llm)\nlab"
    found = []
    for _ in range(5):
        kernel.run(code, "one")
        found.append(int(kernel.run(memory, "measure")))
    assert found[-1] - found[0] < 50, found
    kernel.run("lab.close()\ndel lab, llm", "close")
    assert int(kernel.run(memory, "measure")) < found[0] - 400, found  # the model's 540 MB
