"""One size for each card, in every chapter; and the call of vLLM that chapter 09 gives to copy."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import nbformat
import pytest

from pagedlab.engine import LLM
from pagedlab.engine.cards import CARDS, plan_card
from pagedlab.engine.config import EngineConfig

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = {path.name[:2]: nbformat.read(path, as_version=4) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
SHEETS = {"T4": 16, "L4": 24, "A100": 40, "H100": 80, "H200": 141}  # GB of the data sheets
FOUR = ("gpu_memory_utilization", "block_size", "enable_prefix_caching", "max_num_seqs")


def written(number: str) -> str:
    """All that a chapter says: its texts, its code, and what its code printed."""
    parts = []
    for cell in CHAPTERS[number].cells:
        parts += [cell.source, *(output.get("text", "") for output in cell.get("outputs", []))]
    return "\n".join(parts)


def test_the_chapters_that_speak_of_an_h200_say_one_number():
    plan = plan_card("H200", "Llama-3.1-8B")
    tokens, blocks = f"{plan.num_tokens:,}", f"{plan.budget.num_blocks:,}"
    assert re.findall(r"Llama-3.1-8B on H200 .*?([\d,]+) tokens", written("00")) == [tokens]
    assert set(re.findall(r"Llama-3.1-8B +on H200 +([\d,]+) tokens", written("09"))) == {tokens}
    assert re.findall(r"on an H200 has ([\d,]+) blocks", written("07")) == [blocks]
    assert re.findall(r"\(The ([\d,]+) blocks are", written("07")) == [blocks]


@pytest.mark.parametrize("number", CHAPTERS)
def test_no_chapter_computes_with_a_data_sheets_gigabytes(number):
    code = "\n".join(cell.source for cell in CHAPTERS[number].cells if cell.cell_type == "code")
    for card, gigabytes in SHEETS.items():
        assert not re.search(rf"\b{gigabytes}(?:e9| \* 1e9| \* 10\*\*9| \* GIB| \* \(1 << 30\))", code), card
        assert not re.search(rf'"{card}": {gigabytes}\b', code), card
    text = "\n".join(cell.source for cell in CHAPTERS[number].cells if cell.cell_type == "markdown")
    for card, gigabytes in re.findall(r"(T4|L4|H100|H200)'s (\d+) GB", " ".join(text.split())):
        assert f"{CARDS[card]} GiB" in text, f"{gigabytes} GB of the {card}: say what its driver reports"


def test_the_call_of_vllm_in_chapter_09_has_the_four_knobs_with_their_defaults():
    (block,) = re.findall(r"```python\n(.*?)```", written("09"), re.DOTALL)
    imported, made = ast.parse(block).body
    assert ast.unparse(imported) == "from vllm import LLM" and made.value.func.id == "LLM"
    knobs = {keyword.arg: ast.literal_eval(keyword.value) for keyword in made.value.keywords}
    defaults = {name: inspect.signature(EngineConfig).parameters[name].default for name in FOUR}
    assert {name: knobs.pop(name) for name in FOUR} == defaults
    assert set(knobs) == {"max_model_len"}
    # It starts on the card that the chapter takes, which the model's own length would not.
    assert knobs["max_model_len"] <= plan_card("L4", "Llama-3.1-8B").num_tokens < 131_072
    served = re.search(r"`(vllm serve meta[^`]+)`", written("09")).group(1).split()
    assert {option.removeprefix("--").replace("-", "_") for option in served if option.startswith("--")} == {
        *FOUR,
        "max_model_len",
    }
    text = written("09")
    assert all(f"\n* `{name}`: " in text for name in FOUR), "a sentence for each knob"
    LLM("tiny-random", device="cpu", num_gpu_blocks_override=2, **defaults)  # the names are ours, too


def test_the_course_on_one_page_gives_the_same_call():
    calls = [
        re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        for text in (written("09"), (ROOT / "docs" / "one-page.md").read_text())
    ]
    assert [len(one) for one in calls] == [1, 1]
    assert ast.dump(ast.parse(calls[0][0])) == ast.dump(ast.parse(calls[1][0]))
