"""The pictures of the page and their explanations: numbers that add up, and pictures that can be used."""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch import Tensor

from throughtime.cells import GRU, LSTM, RNN
from throughtime.cells.base import Cell, State
from throughtime.cells.minimal import MinGRU, MinLSTM
from throughtime.cells.variants import CoupledLSTM, LayerNormLSTM, MogrifierLSTM, ProjectedLSTM
from throughtime.inspection.gates import LayerGates, step_gates

TOKENS = 6


class Leaky(Cell):
    """A cell of somebody else, which uses the letters of a GRU for other equations."""

    gates = ("r", "z", "n")
    activations = (("r", "z"), ("n",))
    keeping_gate = "z"

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.add_weights()
        self.reset_parameters()

    def step(self, projected: Tensor, state: State) -> State:
        """Half of what a GRU would take."""
        r, z = torch.sigmoid(projected[:, : 2 * self.hidden_size]).chunk(2, dim=-1)
        n = torch.tanh(projected[:, 2 * self.hidden_size :] + r)
        return (0.5 * (1 - z) * n + z * state[0],)


class Renamed(GRU):
    """A cell of somebody else with the equations of a GRU."""


def answer_of(cell, begin=0.0, name="layer 1"):
    """What inspect/gates answers for a cell that reads random input."""
    generator = torch.Generator().manual_seed(3)
    x = 2 * torch.randn(TOKENS, 1, cell.input_size, generator=generator)
    state = tuple(begin * torch.randn(1, size, generator=generator) for size in cell.state_sizes)
    rows = []
    with torch.no_grad():
        for projected in cell.project(x):
            state, values = step_gates(cell, projected, state)
            rows.append(values)
    if name.endswith("right"):
        rows = rows[::-1]
    values = {letter: torch.cat([row[letter] for row in rows]).numpy() for letter in rows[0]}
    gates = LayerGates(name, type(cell).__name__, tuple("abcdef"), values, cell.keeping_gate)
    return gates.to_dict(5)


EXPLAIN = """
import { unitEquations } from "page/equations.js";
const unit = (one, row) => one.tokens.map((_, step) => unitEquations(one, row, step));
answer(data.map((one) => one.units.map((_, row) => unit(one, row))));
"""


def value_of(numbers):
    """The value of a line as it is printed; None if one of its numbers is not known."""
    if "?" in numbers or "<" in numbers or ">" in numbers:
        return None
    for shown, written in {"σ": "sigmoid", "−": "-", "·": "*"}.items():
        numbers = numbers.replace(shown, written)
    assert re.fullmatch(r"(?:sigmoid|tanh|[\d.\s()+*/-])*", numbers)
    curves = {"sigmoid": lambda x: 1 / (1 + math.exp(-x)), "tanh": math.tanh}
    return eval(numbers, {"__builtins__": {}, **curves})


def test_the_numbers_of_every_cell_add_up(node):
    torch.manual_seed(1)
    cells = [GRU(4, 8), GRU(4, 8, "before"), LSTM(4, 8), CoupledLSTM(4, 8), LayerNormLSTM(4, 8)]
    cells += [ProjectedLSTM(4, 8, 5), MogrifierLSTM(4, 8), MinGRU(4, 8), MinLSTM(4, 8), RNN(4, 8)]
    for cell in cells:
        for weight in cell.parameters():
            torch.nn.init.normal_(weight, std=0.8)
    answers = [answer_of(cell, begin) for cell in cells for begin in (0.0, 1.0)]
    answers += [answer_of(GRU(4, 8), name="encoder layer 1 from the right"), answer_of(Renamed(4, 8))]
    forms, compared = set(), 0
    for asked, found in zip(answers, node(EXPLAIN, answers), strict=True):
        for one in (step for unit in found for step in unit):
            assert one["form"], asked["cell"]
            forms.add(one["form"])
            for line in one["lines"]:
                if line["numbers"] and (value := value_of(line["numbers"])) is not None:
                    assert value == pytest.approx(line["value"], abs=0.01), (asked["cell"], line)
                    compared += 1
        minimal = asked["cell"] in ("MinGRU", "MinLSTM", "RNN")
        told = {step["before"] for unit in found for step in unit[1:]}
        assert minimal or told <= {"zero", "drawn"} or "right" in asked["name"], (asked["cell"], told)
    assert forms == {"gru", "lstm", "mingru", "minlstm", "rnn"}
    assert compared > 1500
    drawn = node(EXPLAIN, [answers[0], answers[1], answers[-2]])
    assert {unit[0]["before"] for unit in drawn[0]} == {"zero"}
    assert {unit[0]["before"] for unit in drawn[1]} <= {"computed", "unknown"}  # as in a decoder
    assert {unit[-1]["before"] for unit in drawn[2]} == {"zero"}  # it reads from the right
    assert {unit[0]["before"] for unit in drawn[2]} == {"drawn"}


def test_other_equations_with_the_same_letters_are_not_explained_wrongly(node):
    torch.manual_seed(1)
    (found,) = node(EXPLAIN, [answer_of(Leaky(4, 8))])
    assert {step["form"] for unit in found for step in unit} == {None}
    assert [line["letter"] for line in found[0][0]["lines"]] == ["z", "r", "n", "h"]


def test_a_score_of_the_beam_is_the_sum_of_its_tokens(node, runs):
    import throughtime as tt
    from throughtime.inspection.translation import beam_tree

    tree = beam_tree(tt.load(runs["translate"]), "one two five", 3).to_dict()
    script = """
    import { attentionRow, beamSum } from "page/equations.js";
    const sums = data.nodes.map((_, place) => beamSum(data, place));
    answer({ sums, row: attentionRow([1.5, 800, 799, -3]) });
    """
    found = node(script, tree)
    for node_, one in zip(tree["nodes"], found["sums"], strict=True):
        assert sum(term["gained"] for term in one["terms"]) == pytest.approx(node_["log_prob"], abs=1e-6)
        assert len(one["terms"]) == one["length"] == node_["step"]
        assert one["total"] / one["divisor"] == pytest.approx(node_["score"], abs=1e-6)
    weights = torch.softmax(torch.tensor([1.5, 800.0, 799.0, -3.0], dtype=torch.float64), 0).tolist()
    assert [cell["weight"] for cell in found["row"]["cells"]] == pytest.approx(weights)


def test_what_changed_is_told_word_by_word(node):
    # The module draws, too, but comparing texts needs no page.
    script = """
    globalThis.document = { createElement: () => ({ append() {} }) };
    const { differences } = await import("page/intervene.js");
    answer(data.map(([one, other]) => differences(one, other)));
    """
    pairs = [("un deux cinq", "deux cinq six"), ("我的钱。", "我有钱。"), ("", "a")]
    found = node(script, pairs)
    for (one, other), (before, after) in zip(pairs, found, strict=True):
        assert ["".join(word for word, _ in side) for side in (before, after)] == [one, other]
        assert [word for word, stays in before if stays] == [word for word, stays in after if stays]
    assert [word for word, stays in found[0][0] if not stays] == ["un", " "]
    assert [word for word, stays in found[1][1] if not stays] == ["有"]


def test_colours_are_even_and_readable(node):
    script = """
    import { scale } from "page/colours.js";
    const parts = (colour) => colour.match(/\\d+/g).map(Number);
    answer(["open", "signed"].flatMap((kind) => [false, true].map((dark) => {
      const at = scale(kind, dark);
      return Array.from({ length: 33 }, (_, i) => [parts(at(i / 32).fill), at(i / 32).ink])
        .concat(Array.from({ length: 33 }, (_, i) => [parts(at(-i / 32).fill), at(-i / 32).ink]));
    })));
    """

    def luminance(colour):
        shares = [part / 255 for part in colour]
        linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in shares]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for table in node(script, None):
        for half in (table[:33], table[33:]):
            bright = [luminance(colour) for colour, _ in half]
            assert bright == sorted(bright) or bright == sorted(bright, reverse=True)
            for (_, ink), own in zip(half, bright, strict=True):
                other = {"#fff": 1.0, "#000": 0.0}[ink]
                assert (max(own, other) + 0.05) / (min(own, other) + 0.05) >= 4.5


@pytest.fixture(scope="module")
def page(browser, trained_site):
    """One page for tests of several sections."""
    complaints = []
    found = browser.new_page(viewport={"width": 1400, "height": 900})
    found.set_default_timeout(20_000)
    found.on("pageerror", lambda error: complaints.append(str(error)))
    found.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
    found.goto(trained_site)
    found.locator("#gates canvas").wait_for()
    yield found
    found.close()
    assert not complaints


def ask(page, section, text):
    """Send a text and wait for the answer."""
    page.locator(f"#{section} textarea").first.fill(text)
    page.locator(f"#{section} button.main").first.click()
    page.locator(f"#{section}:not([aria-busy])").wait_for()


def told(page, place, words):
    """Wait until these words stand there."""
    from playwright.sync_api import expect

    expect(page.locator(place).first).to_contain_text(words)


def test_a_row_of_attention_is_explained_with_its_scores(page):
    ask(page, "translate", "one two five")
    words = page.locator("#translate .target .word")
    told(page, "#translate .target", "cinq")
    words.first.focus()
    page.keyboard.press("ArrowRight")
    assert words.nth(1).evaluate("one => one === document.activeElement")
    told(page, "#translate .explained h3", "deux")
    rows = page.locator("#translate .sums tbody tr").all()
    cells = [row.locator("td").all_inner_texts() for row in rows]
    powers = [float(row[1]) for row in cells]
    assert sum(powers[:-1]) == pytest.approx(powers[-1], abs=0.003)
    for power, row in zip(powers[:-1], cells[:-1], strict=True):
        assert power / powers[-1] == pytest.approx(float(row[2]), abs=0.002)


def test_a_word_is_forbidden_and_taken_back(page):  # R110
    page.locator("#translate .row select").first.select_option("0")
    ask(page, "translate", "one two five")
    told(page, "#translate .choice", "un deux cinq")
    page.locator("#translate .target .word").nth(1).click()
    page.locator("#translate").get_by_role("button", name="Forbid this").click()
    chip = page.locator("#translate .chip")
    chip.wait_for()
    page.locator("#translate .changes p").first.wait_for()
    best = page.locator("#translate .choice .said").first
    assert "deux" not in best.inner_text().split()
    assert page.locator("#translate .changes del").all_inner_texts()[0] == "deux"
    chip.click()
    told(page, "#translate .choice", "un deux cinq")
    assert chip.count() == 0
    assert page.locator("#translate .changes").inner_text() == ""


def test_a_token_of_the_tree_is_forced_with_the_keyboard(page):
    ask(page, "search", "one two five")
    told(page, "#search .readout", "un deux cinq")
    first = page.locator("#search .node.chosen")
    first.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    other = page.locator("#search .node.chosen .token").text_content().removesuffix(" ✕")
    assert other not in ("un", "⟨end⟩")
    told(page, "#search .explained h3", other)
    page.locator("#search").get_by_role("button", name="Begin with this").press("Enter")
    told(page, "#search .chip", other)
    told(page, "#search .changes", "less likely")
    assert page.locator("#search .changes bdi").nth(1).inner_text().split()[0] == other
    page.locator("#search textarea").fill("two two")  # interventions belong to one text
    page.locator("#search button.main").click()
    told(page, "#search .readout", "deux deux")
    assert page.locator("#search .chip").count() == 0


def test_the_chosen_token_and_its_explanation_follow_the_steps(opened, trained_site):
    page = opened(trained_site, viewport={"width": 400, "height": 850})
    page.locator("#search .node").first.wait_for()
    page.locator("#search textarea").fill("one two five four three")  # answers follow while one types
    told(page, "#search .readout", "un deux cinq quatre trois")
    seen = """one => {
      const [own, box] = [one, one.closest(".fades")].map((each) => each.getBoundingClientRect());
      return own.left >= box.left && own.right <= box.right;
    }"""
    chosen = page.locator("#search .node.chosen")
    assert chosen.locator(".token").text_content() == "⟨end⟩"
    assert chosen.evaluate(seen)
    slider = page.locator("#search input[type=range]")
    slider.scroll_into_view_if_needed()
    top = page.evaluate("scrollY")
    for step, word in (("1", "un"), ("3", "cinq")):
        slider.fill(step)
        assert chosen.locator(".token").text_content() == word
        assert chosen.evaluate(seen)
        title = page.locator("#search .explained h3").text_content()
        assert title == f"The score of “{word}” at step {step}"
        told(page, "#search .readout", f"Step {step}:")
    assert page.evaluate("scrollY") == top
    total = page.locator("#search .sums tr").last.locator("th, td").all_text_contents()
    assert [one.split("−")[0] for one in total[::2]] == ["together", "sum: ln P = "]
    assert total[1].startswith("product: ")


def test_the_end_of_the_tree_is_reachable(opened, trained_site):
    page = opened(trained_site, viewport={"width": 400, "height": 850})
    page.locator("#search .node").first.wait_for()
    ask(page, "search", "one two five four three")
    box = page.locator("#search .fades")
    page.locator("#search .more-before").wait_for()  # the end of the best translation is chosen, and in sight
    page.get_by_role("button", name="to the beginning").click()
    page.locator("#search .more-after").wait_for()
    page.get_by_role("button", name="to the end").click()
    page.wait_for_timeout(700)
    assert "more-after" not in box.get_attribute("class")
    assert "more-before" in box.get_attribute("class")
    right = box.evaluate("one => one.getBoundingClientRect().right")
    nodes = page.locator("#search .node").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().right)"
    )
    assert max(nodes) <= right
    texts = page.locator("#search .node").evaluate_all(
        "all => all.map(one => [one.querySelector('.token').getComputedTextLength(),"
        " Number(one.querySelector('rect').getAttribute('width'))])"
    )
    assert all(text < box for text, box in texts)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_gates_follow_typing(page):
    matrix = page.locator("#gates .matrix")
    tokens = int(re.search(r"by (\d+) tokens", matrix.get_attribute("aria-label"))[1])
    box = page.locator("#gates textarea")
    box.fill(f"{box.input_value()} one two")
    page.locator(f"#gates .matrix[aria-label*='by {tokens + 2} tokens']").wait_for()


def test_a_unit_is_chosen_by_mouse_and_keyboard(page):  # R110
    page.locator("#gates .matrix").focus()
    before = page.locator("#gates .explained h3").inner_text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    after = page.locator("#gates .explained h3").inner_text()
    assert after != before
    readout = page.locator("#gates .readout").inner_text()
    assert re.match(r"unit \d+ at “.+”: .+ = −?\d\.\d+", readout)
    assert re.search(r"\d+", after)[0] in readout
    page.locator("#gates .matrix").click(position={"x": 120, "y": 60})
    assert page.locator("#gates .explained h3").inner_text() != after
    assert page.locator("#gates .equation").count() >= 3


def test_a_long_text_has_a_matrix_for_each_sentence_and_draws_soon(page):
    text = "one two three four five . " * 77
    page.locator("#translate .row select").first.select_option("0")
    page.evaluate(
        """() => { window.longest = 0;
        new PerformanceObserver((list) => { for (const one of list.getEntries())
          window.longest = Math.max(window.longest, one.duration); }).observe({ type: "longtask" }); }"""
    )
    ask(page, "translate", text[:2000])
    page.wait_for_function("document.querySelectorAll('#translate canvas').length > 1")
    counts = page.evaluate(
        """() => [document.querySelectorAll("#translate .part").length,
        document.querySelectorAll("#translate .part canvas").length,
        [...document.querySelectorAll("#translate canvas")]
          .filter((one) => one.width > 50 && one.height > 50).length]"""
    )
    assert counts[0] == counts[1] == counts[2] > 1
    spent = page.evaluate("window.longest")
    print(f"longest task while 2,000 characters were drawn: {spent:.0f} ms")
    assert spent < 1500
    page.locator("#translate .row select").first.select_option("2")
    ask(page, "translate", "one two")
