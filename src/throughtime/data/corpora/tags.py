"""Words with a tag each."""

from __future__ import annotations

from throughtime.data.corpora.corpus import Corpus, CorpusFile, Part

_SNIPS = "https://raw.githubusercontent.com/MiuLab/SlotGated-SLU/master/data/snips"

UD_ENGLISH = Corpus(
    name="ud-english-ewt",
    title="Universal Dependencies English EWT, parts of speech",
    description="16,622 sentences of web text, one of 17 universal parts of speech a word (release 2.16).",
    licence="CC BY-SA 4.0",
    citation=(
        "Natalia Silveira, Timothy Dozat, Marie-Catherine de Marneffe, Samuel Bowman, Miriam Connor, John "
        "Bauer, Christopher D. Manning. A Gold Standard Dependency Corpus for English. LREC 2014."
    ),
    home="https://github.com/UniversalDependencies/UD_English-EWT",
    parts=(
        Part(
            "tags",
            "columns",
            {"train": ("train.upos.tsv",), "valid": ("dev.upos.tsv",), "test": ("test.upos.tsv",)},
            tokens="space",
        ),
    ),
    files=(
        CorpusFile(
            "dev.upos.tsv", "f70c1b8b52e8faf98950b1d93b3d20b03eb0a8afb18487e8f53e29b8cc6ff6d4", 253_532
        ),
        CorpusFile(
            "test.upos.tsv", "6d9d56c725d62234a54249a8b4027d839e4ee94c9b07cd360dad28ab88463beb", 252_875
        ),
        CorpusFile(
            "train.upos.tsv", "3f7b939b0ceab8340f4fa70a42ccfde858bd1a34e5e9615aac916dc11be89d95", 2_041_589
        ),
    ),
    preparation=(
        "From release r2.16 cut each .conllu file to its FORM and UPOS columns with a tab between, one "
        "empty line after a sentence, without comments, word ranges and empty nodes"
    ),
)

SNIPS = Corpus(
    name="snips-slots",
    title="SNIPS slot filling",
    description="14,484 requests to a voice assistant: words, slots in BIO form and one of seven intents.",
    licence="CC0",
    citation=(
        "Alice Coucke et al. Snips Voice Platform: an embedded Spoken Language Understanding system for "
        "private-by-design voice interfaces. 2018. Split: Chih-Wen Goo et al. Slot-Gated Modeling for Joint"
        " Slot Filling and Intent Prediction. NAACL 2018."
    ),
    home="https://github.com/MiuLab/SlotGated-SLU",
    parts=(
        Part(
            "tags",
            "slots",
            {
                "train": ("train/seq.in", "train/seq.out", "train/label"),
                "valid": ("valid/seq.in", "valid/seq.out", "valid/label"),
                "test": ("test/seq.in", "test/seq.out", "test/label"),
            },
            tokens="space",
        ),
    ),
    files=(
        CorpusFile(
            "test/label",
            "37a26da3ad079bb41c42c85a3a8f827eb47efec4c5917ce5d08f4b2736e4f830",
            10_120,
            f"{_SNIPS}/test/label",
        ),
        CorpusFile(
            "test/seq.in",
            "c1e341173fcea2951a8ca371956a6f81c76de87b9583c62eb87edd6158fa3a7c",
            33_121,
            f"{_SNIPS}/test/seq.in",
        ),
        CorpusFile(
            "test/seq.out",
            "58c07c9097d5e1f78889765c2a535a160f6455b90b3142055c8051847afcca47",
            50_918,
            f"{_SNIPS}/test/seq.out",
        ),
        CorpusFile(
            "train/label",
            "bfd7df6cf9dd76c5da5d8b61bc85f90386197bdd3d7510c1d324c051537b962f",
            184_532,
            f"{_SNIPS}/train/label",
        ),
        CorpusFile(
            "train/seq.in",
            "04ad1e3f2121d83c6478f9a4b17d2dbdc21d06d6127f73cb7af835ed733f9855",
            617_079,
            f"{_SNIPS}/train/seq.in",
        ),
        CorpusFile(
            "train/seq.out",
            "fd5f2121d8055827e5d6b3d3bac30f3d7e94e82a5d437751960cbdd9e1b4f6d3",
            950_926,
            f"{_SNIPS}/train/seq.out",
        ),
        CorpusFile(
            "valid/label",
            "9c1dd041216f647bcfca838aaf1a48eb5781e4404256d31ff07cd38a5436c52f",
            9_900,
            f"{_SNIPS}/valid/label",
        ),
        CorpusFile(
            "valid/seq.in",
            "64e0f6d8ad8aab3a3828164d7d53731a0993d3ca1aed437ceaca6d3d568d410e",
            33_629,
            f"{_SNIPS}/valid/seq.in",
        ),
        CorpusFile(
            "valid/seq.out",
            "712e6d34feb8d52d208b820a5f8bae6e6ff990f08374507dfde22de389088319",
            50_626,
            f"{_SNIPS}/valid/seq.out",
        ),
    ),
)

CORPORA = (UD_ENGLISH, SNIPS)
