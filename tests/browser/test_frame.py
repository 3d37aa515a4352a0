"""What the sections of the page share: languages, comparisons, requests for other programs, files."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stdout

import pytest
from tests.browser.conftest import TASKS
from tests.browser.pages import settled

from throughtime.files import PAGE


def said(page, place):
    """The text of one element, once it has one."""
    from playwright.sync_api import expect

    expect(page.locator(place).first).not_to_be_empty()
    return page.locator(place).first.inner_text()


def test_the_language_is_the_browsers_until_it_is_switched_and_then_remembered(opened, place):
    page = opened(place, locale="zh-CN")
    assert page.locator("html").get_attribute("lang") == "zh-Hans"
    assert said(page, "#tag h2") == "标注句子中的词"
    settled(page)
    page.locator("#tag textarea").fill("one two")
    settled(page)
    page.locator("#language").click()
    settled(page)
    assert page.locator("html").get_attribute("lang") == "en"
    assert said(page, "#tag h2") == "Tag the words of a sentence"
    assert said(page, "nav a") == "Translate"
    assert page.locator("#tag textarea").input_value() == "one two"  # what was typed stays
    assert page.locator("#tag .tagged").count() == 2
    page.wait_for_timeout(500)  # a browser writes what it remembers in the background
    page.reload()
    page.wait_for_selector("section")
    assert page.locator("html").get_attribute("lang") == "en"
    settled(page)


def test_another_language_keeps_models_settings_interventions_and_comparisons(opened, place):
    page = opened(place, viewport={"width": 1400, "height": 900})
    settled(page)
    beams, layer = page.locator("#search input[type=number]"), page.locator("#gates .row select").first
    beams.fill("2")
    beams.dispatch_event("change")
    layer.select_option("1")
    settled(page)
    page.locator("#translate").get_by_role("button", name="Forbid this").click()
    page.locator("#write .head select").select_option("ngram")
    settled(page)
    page.locator("#write").get_by_label("temperature").fill("0.3")
    page.locator("#write textarea").fill("two")
    page.locator("#write .quiet").click()
    settled(page, quiet=0.6)
    second = page.locator("#write .second")
    assert second.locator("textarea").input_value() == "two"  # not an example of the other model
    assert second.get_by_label("temperature").input_value() == "0.3"
    title, chips = page.title(), page.locator("#translate .chip").count()
    assert chips == 1
    page.locator("#language").click()
    settled(page)
    assert beams.input_value() == "2"
    assert layer.input_value() == "1"
    assert page.locator("#translate .chip").count() == chips
    assert page.locator("#translate .changes del").count() > 0
    assert [one.input_value() for one in page.locator("#write .head select").all()] == ["ngram", "language"]
    assert [one.input_value() for one in page.locator("#write textarea").all()] == ["two", "two"]
    assert page.title() == title
    assert "translate" in title
    assert title.endswith(" – throughtime")


def test_answers_of_an_earlier_text_are_dimmed(opened, place):
    page = opened(place)
    settled(page)
    page.locator("#fill textarea").fill("one two")
    page.locator("#fill .view.stale").wait_for()
    assert said(page, "#fill .warning") == "There is no blank yet: write ___ where a word is missing."
    page.locator("#fill textarea").fill("one ___")
    settled(page, quiet=0.6)
    assert page.locator("#fill .stale").count() == 0
    page.locator("#write textarea").fill("two")
    page.locator("#write .written.stale").wait_for()
    page.locator("#write").get_by_label("stop at").fill("e")
    page.locator("#write button.main").click()
    settled(page)
    assert page.locator("#write .stale").count() == 0
    assert page.locator("#write .written .score").inner_text() in (
        "The text ended by itself or at “e”.",
        "The text was cut at 40 tokens.",
    )


def test_room_for_a_larger_answer_is_given_back(opened, place):
    page = opened(place)
    settled(page)
    heights = []
    for count in ("20", "1"):
        page.locator("#fill input[type=number]").fill(count)
        page.locator("#fill button.main").click()
        settled(page)
        heights.append(page.locator("#fill .view").bounding_box()["height"])
    assert heights[1] < heights[0]


def test_problems_are_told_in_chinese(node):
    script = """
    import { sayProblem, sayWarning } from "page/notes.js";
    import { chooseLanguage } from "page/words.js";
    chooseLanguage("zh");
    answer([...data.map(sayProblem),
      sayWarning("the text is in Cyrillic letters, which the model never saw, so the answer means little")]);
    """
    told = node(
        script,
        [
            "text: has no blank; write ___ where a word is missing",
            "Series 'a': has 3 rows, but a forecast needs 1,008; give more rows.",
            "Data: has steps of one day, the model was trained on one week.",
            "nobody knows this",
        ],
    )
    assert told == [
        "文本中没有空；请在缺词的地方写 ___。",
        "序列有 3 行，但预测需要 1,008 行；请提供更多行。",
        "这些行的步长是一天，但模型训练时的步长是一周。",
        "Nobody knows this.",
        "文本使用的文字（西里尔字母）模型从未见过，所以结果没有多大意义。",
    ]


def test_it_is_told_where_answers_are_computed(opened, place):
    page = opened(place)
    told = page.locator(".where:visible").all_inner_texts()
    if isinstance(place, str):
        assert told == ["All answers are computed by this server; nothing is sent to another one."]
    else:
        assert told == ["All answers are computed in this page; nothing is sent anywhere."]
    settled(page)


def test_two_models_answer_the_same_question_side_by_side(opened, place):
    page = opened(place, viewport={"width": 1400, "height": 900})
    settled(page)
    page.locator("#write .quiet").click()
    settled(page)
    first, second = page.locator("#write .panel").all()
    assert first.locator(".head select").input_value() != second.locator(".head select").input_value()
    page.locator("#write textarea").first.fill("three")
    settled(page, quiet=0.6)
    assert second.locator("textarea").input_value() == "three"
    for panel in (first, second):
        assert panel.locator(".surprises .token").first.inner_text().strip().startswith("three")
    page.locator("#write button.main").first.click()
    settled(page)
    for panel in (first, second):
        assert panel.locator(".page").inner_text().startswith("three")
    beside = [panel.bounding_box() for panel in (first, second)]
    assert beside[0]["y"] == beside[1]["y"]
    assert beside[0]["width"] == pytest.approx(beside[1]["width"], abs=1)
    page.set_viewport_size({"width": 400, "height": 800})
    settled(page)
    below = [panel.bounding_box() for panel in (first, second)]
    assert below[0]["y"] + below[0]["height"] <= below[1]["y"]
    page.locator("#write .quiet").first.click()
    page.locator("#write .panel.second").wait_for(state="detached")
    assert page.locator("#write .panel").count() == 1
    settled(page)


def test_other_settings_of_one_model_are_compared_too(opened, place):
    page = opened(place)
    settled(page)
    page.locator("#compose .quiet").click()
    settled(page)
    first, second = page.locator("#compose .panel").all()
    assert first.locator(".composed").all_inner_texts() == second.locator(".composed").all_inner_texts()
    second.get_by_label("seed").fill("7")
    second.locator("button.main").click()
    settled(page)
    assert first.locator(".composed").all_inner_texts() != second.locator(".composed").all_inner_texts()
    first.locator(".row select").select_option("odd")
    settled(page)
    assert second.locator(".row select").input_value() == "odd"


def test_requests_for_other_programs_are_those_that_were_made(opened, trained_site, runs, tmp_path):
    from playwright.sync_api import expect

    page = opened(trained_site)
    settled(page)
    # What a shell and Python must not read as their own.
    page.locator("#tag textarea").fill('it\'s one "two" \\ 猫')
    expect(page.locator("#tag .tagged .said").last).to_have_text("猫")
    page.evaluate("document.querySelectorAll('details.code').forEach((one) => { one.open = true; })")
    snippets = {}
    for section in (
        "translate",
        "search",
        "write",
        "tag",
        "classify",
        "fill",
        "compose",
        "forecast",
        "gates",
    ):
        found = page.locator(f"#{section} .snippet pre")
        expect(found).to_have_count(3)
        snippets[section] = found.all_inner_texts()
    shell, over_http, _ = snippets["tag"]
    told = subprocess.run(["bash", "-c", shell], capture_output=True, check=True).stdout
    answer = json.loads(told)
    words = answer["results"][0]["words"]
    assert words[0]["word"] == "it's"
    for name, place in (("word", ".said"), ("tag", ".tag")):
        assert [one[name] for one in words] == page.locator(f"#tag .tagged {place}").all_inner_texts()
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(over_http, {})
    assert printed.getvalue().strip() == str(answer)
    # The third one asks the library: all of them in one process, which takes seconds to begin.
    (tmp_path / "runs").symlink_to(next(iter(runs.values())).parent)
    script = "\n".join(f"print('section', {name!r})\n{texts[2]}" for name, texts in snippets.items())
    paths = os.pathsep.join([str(PAGE.parents[1]), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("section ") == len(snippets)
    best = said(page, "#translate .choice .said")
    assert best in ran.stdout


def test_a_request_of_a_file_names_a_server_to_be_started(opened, exported):
    page = opened(exported(*TASKS, weights="int8"))
    settled(page)
    page.locator("#tag details.code summary").click()
    shell = page.locator("#tag .snippet pre").first.inner_text()
    assert shell.startswith("# throughtime serve runs/tag\ncurl http://127.0.0.1:8000/tag ")
    page.locator("#tag .copy").last.scroll_into_view_if_needed()


def test_answers_are_copied(opened, place):
    page = opened(place, permissions=["clipboard-read", "clipboard-write"])
    settled(page)
    page.locator("#fill .view .copy").click()
    page.locator("#fill .view .copy", has_text="Copied").wait_for()  # the clipboard answers later
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.locator("#fill .filling .said").first.inner_text()


def test_examples_fill_the_box_and_are_answered(opened, place):
    page = opened(place)
    settled(page)
    examples = page.locator("#classify .example")
    assert examples.count() >= 2
    examples.nth(1).click()
    assert page.locator("#classify textarea").input_value() == examples.nth(1).inner_text()
    settled(page)
    assert page.locator("#classify .label").count() == 2


def test_words_have_tags_and_texts_have_labels(opened, place):
    page = opened(place)
    settled(page)
    page.locator("#tag textarea").fill("one two three")
    settled(page, quiet=0.6)
    assert page.locator("#tag .tagged .said").all_inner_texts() == ["one", "two", "three"]
    page.locator("#tag .tagged").nth(1).click()
    assert page.locator("#tag .likely h3").inner_text() == "Tags of “two”"
    chosen = page.locator("#tag .tagged .tag").nth(1).inner_text()
    shares = page.locator("#tag .likely .label").all_inner_texts()
    assert any(line.split()[0] == chosen for line in shares)
    page.locator("#classify textarea").fill("one two three")
    settled(page, quiet=0.6)
    told = [line.split() for line in page.locator("#classify .label").all_inner_texts()]
    assert sum(float(line[1]) for line in told) == pytest.approx(100, abs=2)


def test_the_same_seed_continues_a_text_alike(opened, place):
    page = opened(place)
    settled(page)
    page.locator("#write textarea").fill("one two")
    page.get_by_label("temperature").first.fill("1.5")
    written = []
    for seed in ("3", "4", "3"):
        page.locator("#write").get_by_label("seed").fill(seed)
        page.locator("#write button.main").click()
        settled(page)
        written.append(page.locator("#write .page").inner_text())
    assert written[0] == written[2]
    assert written[0].startswith("one two")
    page.locator("#write").get_by_label("top k").fill("1")
    page.locator("#write button.main").click()
    settled(page)
    likeliest = page.locator("#write .page").inner_text()
    page.locator("#write").get_by_role("button", name="Another one").click()
    settled(page)
    assert page.locator("#write").get_by_label("seed").input_value() == "4"
    assert page.locator("#write .page").inner_text() == likeliest  # among one token, nothing is drawn
    page.locator("#write").get_by_role("button", name="Use as text").click()
    assert page.locator("#write textarea").input_value() == likeliest
    settled(page)


def test_series_come_from_a_file_that_is_opened_or_dropped(opened, place):
    page = opened(place)
    settled(page)
    rows = "".join(
        f"{name},{step},{(step + shift) % 8}\n" for name, shift in (("a", 0), ("b", 4)) for step in range(24)
    )
    table = f"unique_id,ds,y\n{rows}"
    page.locator("#forecast input[type=file]").set_input_files(
        {"name": "two.csv", "mimeType": "text/csv", "buffer": table.encode()}
    )
    page.locator("#forecast .row select").wait_for()
    settled(page)
    assert page.locator("#forecast .row select option").all_inner_texts() == ["a", "b"]
    line = page.locator("#forecast .line.observed").get_attribute("d")
    page.locator("#forecast .row select").select_option("b")
    settled(page)
    assert page.locator("#forecast .line.observed").get_attribute("d") != line
    dropped = page.evaluate_handle(
        """() => {
          const data = new DataTransfer();
          data.items.add(new File(["y\\n" + "3\\n5\\n".repeat(12)], "one.csv", { type: "text/csv" }));
          return data;
        }"""
    )
    page.locator("#forecast .box").dispatch_event("drop", {"dataTransfer": dropped})
    settled(page, quiet=0.5)
    assert page.locator("#forecast textarea").input_value().startswith("y\n3\n5\n")
    assert not page.locator("#forecast .row select").is_visible()


def test_the_menu_of_a_phone_opens_goes_there_and_closes(opened, place):
    page = opened(place, viewport={"width": 400, "height": 800}, reduced_motion="reduce")
    settled(page)
    menu, links = page.locator("#menu"), page.locator("nav a")
    assert not links.first.is_visible()
    menu.click()
    assert links.count() == page.locator("section").count()
    assert all(link.bounding_box()["x"] + link.bounding_box()["width"] <= 400 for link in links.all())
    page.keyboard.press("Escape")
    assert not links.first.is_visible()
    assert menu.evaluate("one => one === document.activeElement")
    page.keyboard.press("Enter")
    links.last.click()
    assert not links.first.is_visible()
    assert page.evaluate("location.hash") == "#gates"
    assert abs(page.locator("#gates").bounding_box()["y"]) < 120


def test_tables_are_read(node):
    script = """
    import { parseSeries } from "page/csv.js";
    answer(data.map((text) => { try { return parseSeries(text); } catch (error) { return error.message; } }));
    """
    told = node(
        script,
        [
            "1\n2\n\n3",
            "1, 2, , 4",
            "ds;y\n2024-01-01;1,5",
            'ds,y\n"2024-01-01",1\n2024-01-02,nan',
            "unique_id,ds,y\nb,1,5\na,1,6\nb,2,7",
            "",
            "1\ntwo",
            "y\n1.5\n2,5",
            'ds,y\n\n2024-01-01,"2,5"',
            "ds,y\n2024-01-03,3\n2024-01-01,1\n2024-01-02,2",
            "ds,y\n01.02.2024,2\n31.01.2024,1",
            "ds,a,b\n2024-01-01,1,5\n2024-01-02,2,6",
            "a,b\n1.5,7\n0.5,9",
            "day,y,note\n3,1,x\n4,2,z",
        ],
    )
    assert told[0] == [{"name": "", "y": [1, 2, 3], "ds": None}]
    assert told[1][0]["y"] == [1, 2, None, 4]
    assert told[2] == [{"name": "", "y": [1.5], "ds": ["2024-01-01"]}]
    assert told[3] == [{"name": "", "y": [1, None], "ds": ["2024-01-01", "2024-01-02"]}]
    assert told[4] == [{"name": "b", "y": [5, 7], "ds": [1, 2]}, {"name": "a", "y": [6], "ds": [1]}]
    assert told[5] == "Paste some values first, one per line."
    assert told[6] == "Line 2 has “two” where a number should be."
    assert told[7] == "Line 3 has “2,5”; write a decimal point: 2.5."
    assert told[8] == "Line 3 has “2,5”; write a decimal point: 2.5."
    assert told[9] == [{"name": "", "y": [1, 2, 3], "ds": ["2024-01-01", "2024-01-02", "2024-01-03"]}]
    assert told[10] == [{"name": "", "y": [1, 2], "ds": ["31.01.2024", "01.02.2024"]}]
    assert [(one["name"], one["y"], one["ds"][0]) for one in told[11]] == [
        ("a", [1, 2], "2024-01-01"),
        ("b", [5, 6], "2024-01-01"),
    ]
    assert told[12] == [{"name": "a", "y": [1.5, 0.5], "ds": None}, {"name": "b", "y": [7, 9], "ds": None}]
    assert told[13] == [{"name": "", "y": [1, 2], "ds": [3, 4]}]
