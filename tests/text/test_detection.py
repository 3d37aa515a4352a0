"""Which language a text is in, and whether the two sides of pairs are the wrong way round."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from throughtime.data.datasets import open_dataset
from throughtime.text.languages import SAMPLES, Detector, are_swapped, are_translated

# Written for these tests; none of it is in the samples of the detector.
TEXTS = {
    "en": ["The kitchen window was open all night.", "Nobody knows where my brother went yesterday."],
    "fr": ["La fenêtre de la cuisine est restée ouverte.", "Personne ne sait où mon frère est allé hier."],
    "de": [
        "Das Fenster der Küche war die ganze Nacht offen.",
        "Niemand weiß, wohin mein Bruder gestern ging.",
    ],
    "es": ["La ventana de la cocina estuvo abierta toda la noche.", "Nadie sabe adónde fue mi hermano ayer."],
    "it": [
        "La finestra della cucina è rimasta aperta tutta la notte.",
        "Nessuno sa dove è andato mio fratello.",
    ],
    "pt": ["A janela da cozinha ficou aberta a noite toda.", "Ninguém sabe para onde foi o meu irmão ontem."],
    "nl": [
        "Het raam van de keuken stond de hele nacht open.",
        "Niemand weet waar mijn broer gisteren heen ging.",
    ],
    "ru": ["Окно кухни было открыто всю ночь.", "Никто не знает, куда вчера ушёл мой брат."],
    "uk": ["Вікно кухні було відчинене всю ніч.", "Ніхто не знає, куди вчора пішов мій брат."],
    "zh": ["厨房的窗户开了一整夜。", "没有人知道我哥哥昨天去了哪里。"],
    "ja": ["台所の窓は一晩中開いていました。", "兄が昨日どこへ行ったのか誰も知りません。"],
    "ko": ["부엌 창문이 밤새 열려 있었다.", "형이 어제 어디로 갔는지 아무도 모른다."],
    "el": ["Το παράθυρο της κουζίνας ήταν ανοιχτό όλη νύχτα.", "Κανείς δεν ξέρει πού πήγε ο αδελφός μου."],
    "ar": ["كانت نافذة المطبخ مفتوحة طوال الليل.", "لا أحد يعرف أين ذهب أخي أمس."],
    "he": ["חלון המטבח היה פתוח כל הלילה.", "אף אחד לא יודע לאן אחי הלך אתמול."],
    "hi": ["रसोई की खिड़की सारी रात खुली रही।", "कोई नहीं जानता कि मेरा भाई कल कहाँ गया।"],
    "th": ["หน้าต่างห้องครัวเปิดอยู่ทั้งคืน", "ไม่มีใครรู้ว่าเมื่อวานพี่ชายของฉันไปไหน"],
}
PAIRS = [
    *itertools.permutations(("en", "fr", "de", "es", "it", "pt", "nl"), 2),
    *(("en", code) for code in ("ru", "uk", "zh", "ja", "ko", "el", "ar", "he", "hi", "th")),
    *(("ru", "zh"), ("zh", "ja"), ("ja", "ko"), ("fr", "uk"), ("el", "th")),
]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_swapped_sides_are_seen_and_right_ones_are_not(source: str, target: str) -> None:
    sources, targets = TEXTS[source] * 10, TEXTS[target] * 10
    assert are_swapped(targets, sources, source, target)
    assert not are_swapped(sources, targets, source, target)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_texts_in_the_target_language_are_seen(source: str, target: str) -> None:  # R120
    assert are_translated(TEXTS[target], source, target)
    assert not are_translated(TEXTS[source], source, target)


def test_a_text_of_uncertain_language_is_not_taken_for_a_translation() -> None:  # R120
    for text in ("Lucas lives in Rome.", "I made a decision.", "Tom's famous.", "1 2 3", ""):
        assert not are_translated([text], "en", "fr")
    mixed = [TEXTS["fr"][0], *TEXTS["en"]]
    assert not are_translated(mixed, "en", "fr")
    assert not are_translated(TEXTS["de"], "en", "fr")
    assert not are_translated(TEXTS["fr"], "src", "tgt")


def test_what_is_not_known_is_not_said() -> None:
    english, french, german = (TEXTS[code] * 10 for code in ("en", "fr", "de"))
    assert not are_swapped(french, english, "sv", "da")  # one script, and no words of theirs
    assert not are_swapped(french, english, "src", "tgt")
    assert not are_swapped(french, french, "en", "fr")
    assert not are_swapped(german, english, "en", "fr")  # wrong, but not the wrong way round
    assert not are_swapped(french[:5], english[:5], "en", "fr")  # too few to judge
    assert not are_swapped(["1 2 3"] * 99, ["4 5 6"] * 99, "en", "fr")
    assert are_swapped(french, english, "eng", "fra")
    assert are_swapped(french, english, "English", "fr_CA")


@pytest.mark.parametrize(
    ("name", "source", "target"),
    [
        ("multi30k/tok", "en", "de"),
        ("multi30k/tok", "fr", "en"),
        ("tatoeba-fra-eng", "en", "fr"),
        ("tatoeba-cmn-eng", "en", "zh"),
        ("hsk-en-zh", "en", "zh"),
    ],
)
def test_real_corpora_alarm_only_when_swapped(corpora, name: str, source: str, target: str) -> None:
    pairs = list(itertools.islice(open_dataset(name, source=source, target=target).pairs("train"), 300))
    sources, targets = zip(*pairs, strict=True)
    assert not are_swapped(sources, targets, source, target)
    assert are_swapped(targets, sources, source, target)


def test_sentences_of_multi30k_are_told_apart(corpora) -> None:
    detector = Detector({code: [sample] for code, sample in SAMPLES.items()})
    for code in ("en", "de", "fr"):
        other = "en" if code != "en" else "de"
        texts = open_dataset("multi30k/tok", source=code, target=other).texts("test", "source")
        votes = Counter(detector.guesses(text)[0].language for text in itertools.islice(texts, 300))
        assert votes[code] > 285
