"""A notebook with the kernel "pagedlab with vLLM": its labs step a live vLLM. The kernel is `.venv-vllm`'s, the browser
is driven from here."""

import pytest

pytestmark = pytest.mark.browser

CELLS = [
    """from vllm import LLM
from pagedlab import watch
from pagedlab.model.export import exported
from pagedlab.viz import memory_map, prefix_hits, preemption, step_both

llm = LLM(str(exported("smollm2")), dtype="float32", enforce_eager=True, max_model_len=384, block_size=32,
          num_gpu_blocks_override=14, use_tqdm_on_load=False)
runner, ran = llm.llm_engine.engine_core.engine_core.model_executor, []
execute = runner.execute_model
runner.execute_model = lambda *a, **k: ran.append(1) or execute(*a, **k)

vllm = watch.of(llm)
vllm.add_request("One block is not enough for a sentence like this", max_tokens=40)
memory_map(vllm)""",
    """SAME = "The library opens at nine, closes at six, and keeps its maps on the second floor. " * 4
vllm.add_request(SAME + "Where are the maps?", max_tokens=8)
prefix_hits(vllm, SAME + "When does it close?")""",
    """from pagedlab.parity.twin import twin

def crowd():
    while watch.of(llm).can_step:
        watch.of(llm).step()
    llm.reset_prefix_cache()
    return watch.of(llm, anew=True)

def fill(vllm):
    for name in ("Ann", "Ben", "Cleo", "Dan"):
        vllm.add_request(SAME + f"Dear {name}, " * 9, max_tokens=60, ignore_eos=True)
    return vllm

ours_and_theirs = fill(crowd())
preemption(ours_and_theirs, twin(ours_and_theirs, ignore_eos=True, era="paper", preemption="swap"))""",
    """from pagedlab.parity.side_by_side import side_by_side

vllm = crowd()
both = side_by_side(vllm)
fill(vllm)
step_both(both)""",
]
COUNT = "print('ran', len(ran))"


class Notebook:
    def __init__(self, lab_page):
        self.lab_page, self.page = lab_page, lab_page.page

    def ran(self):
        """How often vLLM's own model ran, by now, from the notebook's last cell."""
        self.lab_page.run_cell(len(CELLS))
        text = self.page.evaluate(
            """i => window.jupyterapp.shell.currentWidget.content.widgets[i].model.outputs.toJSON()
                 .map(o => [o.text].flat().join("")).join("")""",
            len(CELLS),
        )
        return int(text.split("ran ")[1])

    def open_lab(self, i, name):
        self.lab_page.run_cell(i, timeout=180_000)
        failed = self.page.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error']")
        assert not failed.count(), failed.first.inner_text()
        lab = self.page.locator(f".pagedlab[aria-label^='{name}']")
        lab.wait_for(timeout=30_000)
        return lab

    def click(self, lab):
        before = lab.get_attribute("data-position")
        lab.locator("[data-do=step]").click()
        self.page.wait_for_function(
            "([lab, p]) => lab.dataset.position !== p && lab.dataset.busy === 'false'",
            arg=[lab.element_handle(), before],
            timeout=60_000,
        )


def test_four_labs_step_a_live_vllm_click_by_click(lab_page, jupyter, artifacts):
    lab_page.open(jupyter.notebook("live.ipynb", *CELLS, COUNT, kernel="pagedlab-vllm"))
    notebook = Notebook(lab_page)
    for i, name in enumerate(("Memory map", "Prefix hits", "Preemption", "Side by side")):
        lab = notebook.open_lab(i, name)
        before = notebook.ran()
        for _ in range(3):
            notebook.click(lab)
        assert notebook.ran() == before + 3, name
        words = lab.inner_text()
        heads = lab.locator("[data-id='headline'], [data-id='head.line']").all_text_contents()
        assert "live · vLLM 0.32.0 · CPU · fp32" in words and not any("…" in head for head in heads)
        for theme in ("light", "dark"):
            lab_page.page.evaluate(
                "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})",
                f"JupyterLab {theme.capitalize()}",
            )
            lab_page.page.wait_for_timeout(700)
            lab.screenshot(path=artifacts / f"live-{name.replace(' ', '-').lower()}-{theme}.png")
    assert "The same in all 10 fields." in words
