"""Sentences and their translations."""

from __future__ import annotations

from throughtime.data.corpora.corpus import Corpus, CorpusFile, Part

_D2L = "http://d2l-data.s3-accelerate.amazonaws.com"
_MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1"

TATOEBA_FRENCH = Corpus(
    name="tatoeba-fra-eng",
    title="Tatoeba English-French",
    description=(
        "167,130 short English sentences with French translations, the file that Dive into Deep "
        "Learning uses."
    ),
    licence="CC BY 2.0 FR",
    citation="Tatoeba, https://tatoeba.org; selected by ManyThings.org.",
    home="https://www.manythings.org/anki/",
    parts=(Part("pairs", "tsv", {"all": ("fra.txt",)}, tokens="translation", languages=("en", "fr")),),
    files=(
        CorpusFile(
            "fra.txt",
            "0bb85dbaa1c896844649094d7eaf2e34bee34e84fe362b26ce7e8f2e12aae104",
            11_669_748,
            f"{_D2L}/fra-eng.zip!fra-eng/fra.txt",
        ),
    ),
)

TATOEBA_MANDARIN = Corpus(
    name="tatoeba-cmn-eng",
    title="Tatoeba English-Mandarin",
    description=(
        "32,028 short English sentences with Mandarin translations in both scripts; attribution in column 3."
    ),
    licence="CC BY 2.0 FR",
    citation="Tatoeba, https://tatoeba.org; selected by ManyThings.org.",
    home="https://www.manythings.org/anki/",
    parts=(Part("pairs", "tsv", {"all": ("cmn.txt",)}, tokens="unicode", languages=("en", "zh")),),
    files=(
        CorpusFile("cmn.txt", "d766002332a8f21099afd7427138d44f06bed7486a18f7f0f26f217092667d73", 4_565_695),
    ),
    preparation=(
        "The page's cmn-eng.zip grows with every release, so the sum here fits one release only; take "
        "cmn.txt out of the archive, and open another release by its path"
    ),
)

HSK = Corpus(
    name="hsk-en-zh",
    title="HSK English-Mandarin deck",
    description=(
        "22,131 flashcards: an English sentence, its HSK level, its Mandarin translation and the pinyin."
    ),
    licence="unclear",
    citation=(
        "swaption2009/20k-en-zh-translation-pinyin-hsk, Hugging Face, after a flashcard deck by Brian"
        " Vaughan."
    ),
    home="https://huggingface.co/datasets/swaption2009/20k-en-zh-translation-pinyin-hsk",
    parts=(
        Part("cards", "hsk", {"all": ("hsk-en-zh.txt",)}, tokens="unicode", languages=("en", "zh")),
        Part(
            "pairs",
            "hsk-pairs",
            {"all": ("hsk-en-zh.txt",)},
            "pairs",
            tokens="unicode",
            languages=("en", "zh"),
        ),
    ),
    files=(
        CorpusFile(
            "hsk-en-zh.txt", "c41adb59ddf05e6d763e3eb7310eb6a88a7594237ffe313f0833fa3c3dff8741", 4_803_878
        ),
    ),
    preparation=(
        "Save the page's text as five lines a record (english:, hsk:, mandarin:, pinyin:, --) and leave out"
        " the records whose Mandarin holds digits or Latin letters"
    ),
)

MULTI30K = Corpus(
    name="multi30k",
    title="Multi30k",
    description=(
        "29,000 image captions in English with German and French translations; `multi30k/tok` is the "
        "lowercased, normalised, Moses-tokenised text. Split test is test_2016_flickr."
    ),
    licence="for research",
    citation=(
        "Desmond Elliott, Stella Frank, Khalil Sima'an, Lucia Specia. Multi30K: Multilingual English-German"
        " Image Descriptions. Workshop on Vision and Language, 2016. French: Desmond Elliott, Stella Frank,"
        " Loic Barrault, Fethi Bougares, Lucia Specia. WMT 2017."
    ),
    home="https://github.com/multi30k/dataset",
    parts=(
        Part(
            "pairs",
            "moses",
            {
                "train": ("raw/train.{source}", "raw/train.{target}"),
                "valid": ("raw/val.{source}", "raw/val.{target}"),
                "test": ("raw/test_2016_flickr.{source}", "raw/test_2016_flickr.{target}"),
            },
            tokens="unicode",
            languages=("en", "de", "fr"),
        ),
        Part(
            "pairs",
            "moses",
            {
                "train": ("tok/train.lc.norm.tok.{source}", "tok/train.lc.norm.tok.{target}"),
                "valid": ("tok/val.lc.norm.tok.{source}", "tok/val.lc.norm.tok.{target}"),
                "test": (
                    "tok/test_2016_flickr.lc.norm.tok.{source}",
                    "tok/test_2016_flickr.lc.norm.tok.{target}",
                ),
            },
            name="tok",
            tokens="space",
            languages=("en", "de", "fr"),
        ),
    ),
    files=(
        CorpusFile(
            "raw/test_2016_flickr.de",
            "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
            70_649,
            f"{_MULTI30K}/raw/test_2016_flickr.de.gz",
        ),
        CorpusFile(
            "raw/test_2016_flickr.en",
            "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
            62_076,
            f"{_MULTI30K}/raw/test_2016_flickr.en.gz",
        ),
        CorpusFile(
            "raw/test_2016_flickr.fr",
            "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
            72_261,
            f"{_MULTI30K}/raw/test_2016_flickr.fr.gz",
        ),
        CorpusFile(
            "raw/train.de",
            "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
            2_110_398,
            f"{_MULTI30K}/raw/train.de.gz",
        ),
        CorpusFile(
            "raw/train.en",
            "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
            1_801_238,
            f"{_MULTI30K}/raw/train.en.gz",
        ),
        CorpusFile(
            "raw/train.fr",
            "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
            2_111_303,
            f"{_MULTI30K}/raw/train.fr.gz",
        ),
        CorpusFile(
            "raw/val.de",
            "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
            75_981,
            f"{_MULTI30K}/raw/val.de.gz",
        ),
        CorpusFile(
            "raw/val.en",
            "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
            63_297,
            f"{_MULTI30K}/raw/val.en.gz",
        ),
        CorpusFile(
            "raw/val.fr",
            "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
            73_924,
            f"{_MULTI30K}/raw/val.fr.gz",
        ),
        CorpusFile(
            "tok/test_2016_flickr.lc.norm.tok.de",
            "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4",
            71_917,
            f"{_MULTI30K}/tok/test_2016_flickr.lc.norm.tok.de",
        ),
        CorpusFile(
            "tok/test_2016_flickr.lc.norm.tok.en",
            "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2",
            63_307,
            f"{_MULTI30K}/tok/test_2016_flickr.lc.norm.tok.en",
        ),
        CorpusFile(
            "tok/test_2016_flickr.lc.norm.tok.fr",
            "1463bd5960f9bfe098ec3cd752d3df0c49c84dc646fb518964a29232658cd836",
            76_394,
            f"{_MULTI30K}/tok/test_2016_flickr.lc.norm.tok.fr",
        ),
        CorpusFile(
            "tok/train.lc.norm.tok.de",
            "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505",
            2_150_008,
            f"{_MULTI30K}/tok/train.lc.norm.tok.de",
        ),
        CorpusFile(
            "tok/train.lc.norm.tok.en",
            "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119",
            1_837_696,
            f"{_MULTI30K}/tok/train.lc.norm.tok.en",
        ),
        CorpusFile(
            "tok/train.lc.norm.tok.fr",
            "8fa41bb718412bcb7c5dfa58603842810a01543eae86a51279f9886b901266e1",
            2_235_588,
            f"{_MULTI30K}/tok/train.lc.norm.tok.fr",
        ),
        CorpusFile(
            "tok/val.lc.norm.tok.de",
            "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00",
            77_273,
            f"{_MULTI30K}/tok/val.lc.norm.tok.de",
        ),
        CorpusFile(
            "tok/val.lc.norm.tok.en",
            "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec",
            64_608,
            f"{_MULTI30K}/tok/val.lc.norm.tok.en",
        ),
        CorpusFile(
            "tok/val.lc.norm.tok.fr",
            "b303e301aa21fe7822a846b2b3fb2d5a1121ec807cd5b1d006fb7b2b5507168a",
            78_242,
            f"{_MULTI30K}/tok/val.lc.norm.tok.fr",
        ),
    ),
)

CORPORA = (TATOEBA_FRENCH, TATOEBA_MANDARIN, HSK, MULTI30K)
