"""The saved page of every lab as a stranger meets it: it opens where there is something to see and to do, arrow keys
step it, pointing predicts, and it can be read on a phone."""

from itertools import cycle

import pytest
from saved_labs import LABS, check_readable, made

pytestmark = pytest.mark.browser
PREDICTING = ("memory map", "fragmentation", "kernel", "preemption", "side by side", "token budget")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A lab and its page, made once."""
    folder, labs = tmp_path_factory.mktemp("pages"), {}

    def saved(name):
        if name not in labs:
            labs[name] = made(name), folder / f"{len(labs)}.html"
            labs[name][0].save_html(labs[name][1])
        return labs[name]

    return saved


@pytest.fixture
def opened(browser, saved):
    """Opens the page of a lab; fails where the page wrote an error to its console."""
    contexts, errors = [], []

    def opened(name, width=1000, theme="light", touch=False):
        context = browser.new_context(
            offline=True, viewport={"width": width, "height": 844}, color_scheme=theme, has_touch=touch,
            reduced_motion="reduce",
        )  # fmt: skip
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: message.type == "error" and errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(saved(name)[1].as_uri())
        page.locator(".pagedlab").first.wait_for()
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not errors


def at(page, index=0):
    return int(page.locator(".pagedlab").nth(index).get_attribute("data-position"))


def wait(page, position, index=0):
    page.wait_for_function(
        "([i, p]) => document.querySelectorAll('.pagedlab')[i].dataset.position === String(p)", arg=[index, position]
    )


@pytest.mark.parametrize("name", sorted(LABS.keys() - {"knobs"}))
def test_a_page_of_a_run_that_is_over_opens_where_something_can_be_done(opened, saved, name):
    page = opened(name)
    lab, _ = saved(name)
    assert lab.position == lab.num_steps > 3, "the lab itself stays at the end"
    still = lab.for_export()
    still.rewind()
    assert 0 < at(page) == still.position < lab.num_steps
    go = page.locator(".go")
    assert go.is_enabled() and "→" in go.inner_text()
    go.click()
    wait(page, still.position + 1)


@pytest.mark.parametrize("name", sorted(LABS.keys() - {"knobs"}))
def test_arrow_keys_step_at_once_and_leave_other_keys_alone(opened, name):
    page = opened(name)
    start = at(page)
    page.keyboard.press("ArrowRight")
    wait(page, start + 1)
    page.keyboard.press("ArrowLeft")
    wait(page, start)
    for key in ("Shift+ArrowRight", "Control+ArrowRight", "Alt+ArrowLeft", "ArrowDown"):
        page.keyboard.press(key)
    page.evaluate("() => document.body.insertAdjacentHTML('beforeend', '<input><pre tabindex=0>x</pre>')")
    for box in ("input", "pre[tabindex]"):
        page.locator(box).last.focus()
        page.keyboard.press("ArrowRight")
    page.wait_for_timeout(100)
    assert at(page) == start


def test_on_a_page_of_several_labs_the_keys_go_to_the_one_in_view_or_touched_last(opened):
    page = opened("knobs", touch=True)
    board, memory = at(page), at(page, 1)
    page.locator(".pagedlab").nth(1).scroll_into_view_if_needed()
    page.evaluate("() => scrollTo(0, document.body.scrollHeight)")
    page.keyboard.press("ArrowRight")
    wait(page, memory + 1, 1)
    assert at(page) == board
    page.evaluate("() => scrollTo(0, 0)")
    page.keyboard.press("ArrowLeft")
    wait(page, board - 1)
    page.locator(".pagedlab").nth(1).locator("[data-id='title.pool']").dispatch_event("pointerdown")
    page.evaluate("() => document.activeElement.blur()")
    page.keyboard.press("ArrowRight")
    wait(page, memory + 2, 1)
    assert at(page) == board - 1


@pytest.mark.parametrize("name", PREDICTING)
@pytest.mark.parametrize("right", [True, False], ids=["right", "wrong"])
def test_pointing_predicts_and_the_recording_answers_as_the_lab_itself_does(opened, saved, name, right):
    page = opened(name)
    lab = saved(name)[0].for_export()
    lab.rewind()
    lab._furthest = lab.position  # it was made at the end, where all is seen
    while not lab.asks():
        lab.forward()
        page.keyboard.press("ArrowRight")
    wait(page, lab.position)
    ask = page.locator(".ask")
    assert lab.asks()[0].ask in ask.inner_text()
    question = lab.asks()[0]
    askable = [m.id for m in lab.marks() if "askable" in m.cls.split() and (not question.of or m.id in question.of)]
    id = next(id for id in askable if (id in question.right) == right)
    page.locator(f"[data-id='{id}']").click()
    lab.point(id)
    assert lab.words()["question"] in ask.inner_text() and "You say" in ask.inner_text()
    assert page.locator("[data-id^='guess.']").count() == 1
    page.keyboard.press("ArrowRight")
    lab.forward()
    wait(page, lab.position)
    verdict = lab.words()["verdict"]
    assert verdict.endswith(f"Score {int(right)} of 1.") and verdict in ask.inner_text()
    # Back there it is known: nothing is asked again.
    page.keyboard.press("ArrowLeft")
    wait(page, lab.position - 1)
    page.locator(f"[data-id='{id}']").click()
    assert "Click" not in ask.inner_text() and "You say" not in ask.inner_text()


@pytest.mark.parametrize("name, theme", list(zip(LABS, cycle(["light", "dark"]))))  # sizes do not depend on it
def test_on_a_phone_everything_can_be_read_and_reached_at_every_step(opened, artifacts, name, theme):
    page = opened(name, width=390, theme=theme, touch=True)
    start = at(page)
    page.screenshot(path=artifacts / f"phone-{name.replace(', ', '-').replace(' ', '-')}-{theme}.png", full_page=True)
    check_readable(page)
    steps = int(page.locator(".pagedlab").first.get_attribute("data-steps"))
    for position in [*range(start + 1, steps + 1), 0]:
        page.locator(".pagedlab").first.press("ArrowRight" if position else "Home")
        wait(page, position)
        check_readable(page, least_texts=20 if position else 15)  # before the first step there is less to say


@pytest.mark.parametrize("width", [390, 768, 1400])
@pytest.mark.parametrize("name", LABS)
def test_no_page_scrolls_sideways_and_every_mark_is_on_it(opened, artifacts, name, width):
    page = opened(name, width=width)
    page.screenshot(path=artifacts / f"page-{name.replace(', ', '-').replace(' ', '-')}-{width}.png", full_page=True)
    off = page.evaluate("""() => {
      const { scrollWidth, clientWidth } = document.documentElement;
      const out = [...document.querySelectorAll(".pagedlab")].flatMap((lab) => {
        const { left, right } = lab.getBoundingClientRect();
        return [...lab.querySelectorAll("svg [data-id], button")].filter((e) => e.checkVisibility()).filter((e) => {
          const box = e.getBoundingClientRect();
          return box.width && (box.left < left - 1 || box.right > right + 1);
        }).map((e) => e.dataset.id ?? e.textContent);
      });
      return [scrollWidth - clientWidth, out];
    }""")
    assert off == [0, []]


def test_a_page_that_gets_narrow_is_set_anew_and_back(opened):
    page = opened("memory map")
    size = "() => document.querySelector('.pagedlab svg').viewBox.baseVal.width"
    assert page.evaluate(size) == 960
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function(f"() => ({size})() < 390")
    check_readable(page)
    page.set_viewport_size({"width": 1000, "height": 844})
    page.wait_for_function(f"() => ({size})() === 960")
