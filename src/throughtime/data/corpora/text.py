"""Running text: two books and two benchmark corpora of language modelling."""

from __future__ import annotations

from throughtime.data.corpora.corpus import Corpus, CorpusFile, Part

_D2L = "http://d2l-data.s3-accelerate.amazonaws.com"
_CHAR_RNN = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare"
_PTB = "https://raw.githubusercontent.com/tomsercu/lstm/master/data"
_WIKITEXT = "https://wikitext.smerity.com/wikitext-2-v1.zip"

TIMEMACHINE = Corpus(
    name="timemachine",
    title="The Time Machine",
    description="H. G. Wells's novel of 1895, 3,221 lines: the small text of Dive into Deep Learning.",
    licence="public domain",
    citation="H. G. Wells. The Time Machine. William Heinemann, London, 1895.",
    home="https://www.gutenberg.org/ebooks/35",
    parts=(
        Part(
            "text",
            "text",
            {"all": ("timemachine.txt",)},
            layout="stream",
            tokens="char",
            normaliser="letters",
        ),
    ),
    files=(
        CorpusFile(
            "timemachine.txt",
            "8424dbd9532ac81f7e5f0b6add90e6952baea29158309d7d1bf3884f4e12c516",
            178_979,
            f"{_D2L}/timemachine.txt",
        ),
    ),
)

TINYSHAKESPEARE = Corpus(
    name="tinyshakespeare",
    title="Tiny Shakespeare",
    description="One megabyte of Shakespeare's plays in one file: the small text of char-rnn.",
    licence="public domain",
    citation="Andrej Karpathy. char-rnn. 2015. Text by William Shakespeare.",
    home="https://github.com/karpathy/char-rnn",
    parts=(Part("text", "text", {"all": ("input.txt",)}, layout="stream", tokens="char"),),
    files=(
        CorpusFile(
            "input.txt",
            "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
            1_115_394,
            f"{_CHAR_RNN}/input.txt",
        ),
    ),
)

PTB = Corpus(
    name="ptb",
    title="Penn Treebank, word level",
    description="Wall Street Journal text in Mikolov's preparation: 10,000 types, rare words already <unk>.",
    licence="LDC, for research",
    citation=(
        "Mitchell P. Marcus, Beatrice Santorini, Mary Ann Marcinkiewicz. Building a Large Annotated Corpus "
        "of English: The Penn Treebank. Computational Linguistics 19(2), 1993. Preparation: Tomas Mikolov "
        "et al. Recurrent Neural Network Based Language Model. Interspeech 2010."
    ),
    home="https://catalog.ldc.upenn.edu/LDC99T42",
    parts=(
        Part(
            "text",
            "text",
            {"train": ("ptb.train.txt",), "valid": ("ptb.valid.txt",), "test": ("ptb.test.txt",)},
            tokens="space",
        ),
    ),
    files=(
        CorpusFile(
            "ptb.test.txt",
            "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
            449_945,
            f"{_PTB}/ptb.test.txt",
        ),
        CorpusFile(
            "ptb.train.txt",
            "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
            5_101_618,
            f"{_PTB}/ptb.train.txt",
        ),
        CorpusFile(
            "ptb.valid.txt",
            "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
            399_782,
            f"{_PTB}/ptb.valid.txt",
        ),
    ),
)

WIKITEXT_2 = Corpus(
    name="wikitext-2",
    title="WikiText-2",
    description=(
        "Good and featured Wikipedia articles, two million words, 33,278 types, rare words already <unk>."
    ),
    licence="CC BY-SA 3.0",
    citation=(
        "Stephen Merity, Caiming Xiong, James Bradbury, Richard Socher. Pointer Sentinel Mixture Models. "
        "ICLR 2017."
    ),
    home="https://huggingface.co/datasets/Salesforce/wikitext",
    parts=(
        Part(
            "text",
            "text",
            {"train": ("wiki.train.tokens",), "valid": ("wiki.valid.tokens",), "test": ("wiki.test.tokens",)},
            tokens="space",
        ),
    ),
    files=(
        CorpusFile(
            "wiki.test.tokens",
            "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
            1_256_449,
            f"{_WIKITEXT}!wikitext-2/wiki.test.tokens",
        ),
        CorpusFile(
            "wiki.train.tokens",
            "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
            10_797_148,
            f"{_WIKITEXT}!wikitext-2/wiki.train.tokens",
        ),
        CorpusFile(
            "wiki.valid.tokens",
            "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
            1_121_681,
            f"{_WIKITEXT}!wikitext-2/wiki.valid.tokens",
        ),
    ),
)

CORPORA = (TIMEMACHINE, TINYSHAKESPEARE, PTB, WIKITEXT_2)
