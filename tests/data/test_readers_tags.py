"""Readers of tagged words: columns and slot files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.data.readers import build_reader, reader_for
from throughtime.data.records import TaggedSentence
from throughtime.data.source import BadRecords

WORD = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp")), min_size=1).filter(
    lambda word: not word.startswith(("-DOCSTART-", "\ufeff"))
)
SENTENCES = st.lists(st.lists(st.tuples(WORD, WORD), min_size=1), min_size=1)


def columns(path: Path, text: str, bad: BadRecords | None = None, **options: object) -> list[TaggedSentence]:
    path.write_bytes(text.encode())
    return list(build_reader("columns", options).read([path], bad or BadRecords()))


def tagged(rows: list[tuple[str, str]], label: str = "") -> TaggedSentence:
    words, tags = zip(*rows, strict=True)
    return TaggedSentence(words, tags, label)


@settings(deadline=None)
@given(sentences=SENTENCES)
def test_columns_round_trip(
    tmp_path_factory: pytest.TempPathFactory, sentences: list[list[tuple[str, str]]]
) -> None:
    text = "\n".join("".join(f"{word}\t{tag}\n" for word, tag in rows) for rows in sentences)
    assert columns(tmp_path_factory.mktemp("tags") / "a.tsv", text) == [tagged(rows) for rows in sentences]


def test_columns_of_conll(tmp_path: Path) -> None:
    text = "-DOCSTART- -X- O O\n\nEU NNP I-NP B-ORG\nrejects VBZ I-VP O\n\n\nPeter NNP I-NP B-PER"
    file = tmp_path / "a.conll"
    read = columns(file, text, separator=" ")
    assert read == [TaggedSentence(("EU", "rejects"), ("B-ORG", "O")), TaggedSentence(("Peter",), ("B-PER",))]
    assert columns(file, text, separator=" ", tag=1)[0].tags == ("NNP", "VBZ")


def test_a_hash_is_a_word_unless_comments_are_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    assert columns(file, "#\tSYM\n1\tNUM\n") == [TaggedSentence(("#", "1"), ("SYM", "NUM"))]
    commented = "# text = a\tb\n#newdoc\n#\tSYM\n1\tNUM\n"
    assert columns(file, commented, comments=True) == [TaggedSentence(("#", "1"), ("SYM", "NUM"))]


def test_runs_of_spaces_part_columns_where_the_first_row_has_no_tab(tmp_path: Path) -> None:
    want = [TaggedSentence(("10\xa0000", "Jonas"), ("O", "B-PER")), TaggedSentence(("Bern",), ("B-LOC",))]
    file = tmp_path / "a.conll"
    assert columns(file, "10\xa0000 O\r\nJonas   B-PER \r\n \t\r\nBern\tB-LOC\r\n") == want
    with refuses("a.conll:1", "1", "2"):
        columns(file, "lonely\n")


def test_a_document_mark_ends_a_sentence_and_is_none(tmp_path: Path) -> None:
    text = "-DOCSTART- -X- O\nEU\tNNP\tB-ORG\n-DOCSTART-\t-X-\tO\nIda\tNNP\tB-PER\n"
    assert columns(tmp_path / "a.conll", text) == [
        TaggedSentence(("EU",), ("B-ORG",)),
        TaggedSentence(("Ida",), ("B-PER",)),
    ]


CONLLU = """\
# sent_id = 1
# text = Vámonos al mar
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\tVMI\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\tPP\t_\t1\tobj\t_\t_
2.1\tya\tya\tADV\tRG\t_\t_\t_\t1:advmod\t_
3\t#\t#\tSYM\tF\t_\t1\tpunct\t_\tSpaceAfter=No

#newdoc
1\t10 000\t10 000\tNUM\tZ\t_\t0\troot\t_\t_
"""


@pytest.mark.parametrize("commented", [True, False])
def test_conllu_gives_words_and_their_parts_of_speech(tmp_path: Path, commented: bool) -> None:
    lines = [line for line in CONLLU.splitlines() if commented or not line.startswith("#")]
    file = tmp_path / "a.conllu"
    file.write_text("\n".join(lines), encoding="utf-8")
    words = [("Vamos", "nos", "#"), ("10 000",)]
    parts = [("VERB", "PRON", "SYM"), ("NUM",)]
    reader = reader_for([file])
    assert list(reader.read([file], BadRecords())) == [
        TaggedSentence(*one) for one in zip(words, parts, strict=True)
    ]
    finer = build_reader("conllu", {"tag": "4"}).read([file], BadRecords())
    assert [one.tags for one in finer] == [("VMI", "PP", "F"), ("Z",)]


FAULTS = {
    "lonely": ("1", "2"),
    "a\tB\tC": ("3", "2"),
    "a\t\xa0": ("tag",),
    "\tB": ("word",),
}


@pytest.mark.parametrize(("row", "facts"), FAULTS.items())
def test_column_errors_spoil_their_sentence(tmp_path: Path, row: str, facts: tuple[str, ...]) -> None:
    text = f"Go\tVERB\n\nbad\tADJ\n{row}\nend\tNOUN\n\nHi\tINTJ\n"
    with refuses("a.tsv:4", *facts):
        columns(tmp_path / "a.tsv", text)
    bad = BadRecords(skip=True)
    assert columns(tmp_path / "a.tsv", text, bad) == [
        TaggedSentence(("Go",), ("VERB",)),
        TaggedSentence(("Hi",), ("INTJ",)),
    ]
    assert bad.count == 1


def slots(folder: Path, words: str, tags: str, labels: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in (("seq.in", words), ("seq.out", tags), ("label", labels)):
        (folder / name).write_bytes(text.encode())
    return folder


def test_slots_align_over_doubled_and_trailing_spaces(tmp_path: Path) -> None:
    folder = slots(tmp_path / "train", "play  u2 \ngo on\xa0now", "O B-artist \nO  O", "Play\nGo\n")
    want = [
        TaggedSentence(("play", "u2"), ("O", "B-artist"), "Play"),
        TaggedSentence(("go", "on\xa0now"), ("O", "O"), "Go"),
    ]
    reader = reader_for([folder])
    assert reader.name == "slots"
    assert list(reader.read([folder], BadRecords())) == want
    assert list(reader.read([folder, folder], BadRecords())) == want * 2
    files = [folder / name for name in ("seq.in", "seq.out", "label")]
    assert list(reader_for(files).read(files, BadRecords())) == want


SLOT_FAULTS = {
    ("a b", "O", "L"): ("seq.in:2", "2", "1", "seq.out"),
    (" ", "", "L"): ("seq.in:2",),
    ("a", "O", " "): ("label:2",),
}


@pytest.mark.parametrize(("row", "facts"), SLOT_FAULTS.items())
def test_slot_errors(tmp_path: Path, row: tuple[str, str, str], facts: tuple[str, ...]) -> None:
    words, tags, label = row
    folder = slots(tmp_path / "train", f"a\n{words}\nz\n", f"O\n{tags}\nO\n", f"L\n{label}\nL\n")
    reader = build_reader("slots")
    with refuses(*facts):
        list(reader.read([folder], BadRecords()))
    bad = BadRecords(skip=True)
    assert [record.words for record in reader.read([folder], bad)] == [("a",), ("z",)]
    assert bad.count == 1


def test_slot_files_that_are_missing_or_unequal(tmp_path: Path) -> None:
    folder = slots(tmp_path / "train", "a\nb\n", "O\n", "L\nL\n")
    reader = build_reader("slots")
    with refuses("seq.in:2", "2", "seq.out", "1"):
        list(reader.read([folder], BadRecords()))
    (folder / "label").unlink()
    with refuses("label"):
        list(reader.read([folder], BadRecords()))
    with refuses("seq.in"):
        list(reader.read([folder / "seq.in"], BadRecords()))


@pytest.mark.parametrize(
    ("split", "sentences", "words"), [("train", 12_544, 204_577), ("dev", 2_001, 25_147)]
)
def test_universal_dependencies(corpora: Path, split: str, sentences: int, words: int) -> None:
    file = corpora / "ud-english-ewt" / f"{split}.upos.tsv"
    records = list(build_reader("columns").read([file], BadRecords()))
    assert (len(records), sum(len(record.words) for record in records)) == (sentences, words)
    assert len({tag for record in records for tag in record.tags}) == 17


@pytest.mark.parametrize(("split", "count"), [("train", 13_084), ("valid", 700), ("test", 700)])
def test_snips(corpora: Path, split: str, count: int) -> None:
    records = list(build_reader("slots").read([corpora / "snips-slots" / split], BadRecords()))
    assert len(records) == count
    assert all(len(record.words) == len(record.tags) for record in records)
