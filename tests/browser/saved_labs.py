"""Every lab as a page without a kernel, and what a page is measured by."""

from test_memory_map import LIVE
from test_other_labs import KERNEL, PREFIX, SIDES
from test_preemption_in_a_browser import LIVE as TWO_RUNS
from test_token_budget_in_a_browser import LANES
from test_token_budget_in_a_browser import LIVE as BUDGET

TO_THE_END = "\nwhile lab.forward(): pass"
PAPER = LIVE.replace("override=12", "override=16, era='paper'").replace('select="A"', "")
PAPER = PAPER.replace("max_tokens=5", "n=3, temperature=1.0, seed=1, max_tokens=5")
LABS = {
    "memory map": LIVE + TO_THE_END,
    "memory map, medium blocks": LIVE.replace("override=12", "override=48") + TO_THE_END,
    "memory map, small blocks": LIVE.replace("override=12", "override=400") + TO_THE_END,
    "memory map, the paper": PAPER + TO_THE_END,
    "fragmentation": "from pagedlab.viz import fragmentation\nlab = fragmentation()\nlab.seek(lab.num_steps)",
    "prefix": PREFIX + "lab = prefix_hits(llm, 'You help. Who is it').lab" + TO_THE_END,
    "kernel": KERNEL + "lab = kernel_walk(llm)" + TO_THE_END,
    "preemption": TWO_RUNS + TO_THE_END,
    "token budget": BUDGET.replace("AHEAD", "False") + TO_THE_END,
    "plan and run": BUDGET.replace("AHEAD", "True") + LANES + TO_THE_END,
    "side by side": SIDES + "lab = step_both(side_by_side(golden('sched-02'), block_pool=AllToTheTail))" + TO_THE_END,
    "knobs": "from pagedlab.viz import knobs\nlab = knobs()\nlab.run(block_size=64)",
}  # fmt: skip

# What a phone's reader would run into: text that is too small, or that leaves the screen; a page that scrolls
# sideways; a button that cannot be reached. Words for screen readers alone do not count, and what is scrolled to in a
# box of its own has not left.
READ = """() => {
  const found = { small: [], outside: [], buttons: [], sideways: 0, texts: 0 };
  const page = document.documentElement;
  found.sideways = page.scrollWidth - page.clientWidth;
  const leaves = (r) => r.left < -0.5 || r.right > page.clientWidth + 0.5;
  const scrolls = (e) => e && e !== document.body &&
    (["auto", "scroll"].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, e = node.parentElement;
    if (!node.textContent.trim() || e.closest("script, style, title, desc, .spoken") || !e.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (!box.width || !box.height) continue;
    found.texts++;
    const matrix = e.ownerSVGElement ? e.getScreenCTM() : { a: 1, b: 0 };
    const scale = Math.hypot(matrix.a, matrix.b);
    const size = parseFloat(getComputedStyle(e).fontSize) * scale;
    if (size < 10.99) found.small.push(`${size.toFixed(1)}: ${node.textContent.slice(0, 30)}`);
    if (leaves(box) && !scrolls(e)) found.outside.push(node.textContent.slice(0, 30));
  }
  for (const button of document.querySelectorAll("button")) {
    if (button.checkVisibility() && leaves(button.getBoundingClientRect())) found.buttons.push(button.textContent);
  }
  return found;
}"""


def made(name):
    """The lab of that name."""
    names = {}
    exec(LABS[name], names)
    return names["lab"]


def check_readable(page, least_texts=20):
    seen = page.evaluate(READ)
    assert seen.pop("texts") >= least_texts
    assert seen == {"small": [], "outside": [], "buttons": [], "sideways": 0}, seen
