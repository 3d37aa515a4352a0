"""The benchmark beside JoeyNMT: what can be checked of it without JoeyNMT."""

from __future__ import annotations

import subprocess

import pytest
import torch
from benchmarks import translate_setup as setup
from benchmarks.translate_ours import MISSING, for_joeynmt
from torch import Tensor, nn

from throughtime.config import build_config
from throughtime.models.seq2seq import EncoderDecoder
from throughtime.models.weights import named_weights
from throughtime.tasks.translate import network
from throughtime.tasks.translate.config import TranslateConfig
from throughtime.tasks.translate.model import Translator
from throughtime.text.codec import Codec
from throughtime.text.parallel import Codecs

SOURCE, TARGET, EMBEDDING, HIDDEN = 11, 13, 6, 8


class Peer(nn.Module):
    """JoeyNMT's equations on torch's modules, for one sentence, with the names of its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.src_embed = nn.ModuleDict({"lut": nn.Embedding(SOURCE, EMBEDDING)})
        self.trg_embed = nn.ModuleDict({"lut": nn.Embedding(TARGET, EMBEDDING)})
        self.encoder = nn.ModuleDict({"rnn": nn.GRU(EMBEDDING, HIDDEN // 2, bidirectional=True)})
        self.decoder = nn.ModuleDict(
            {
                "rnn": nn.GRU(EMBEDDING + HIDDEN, HIDDEN),
                "att_vector_layer": nn.Linear(2 * HIDDEN, HIDDEN),
                "output_layer": nn.Linear(HIDDEN, TARGET, bias=False),
                "attention": nn.ModuleDict(
                    {
                        "key_layer": nn.Linear(HIDDEN, HIDDEN, bias=False),
                        "query_layer": nn.Linear(HIDDEN, HIDDEN, bias=False),
                        "energy_layer": nn.Linear(HIDDEN, 1, bias=False),
                    }
                ),
            }
        )

    def forward(self, source: Tensor, inputs: Tensor) -> Tensor:
        values, last = self.encoder["rnn"](self.src_embed["lut"](source))
        state, fed, found = last.flatten()[None], torch.zeros(1, HIDDEN), []
        layers = self.decoder["attention"]
        for token in inputs:
            read = torch.cat([self.trg_embed["lut"](token)[None], fed], dim=1)
            state = self.decoder["rnn"](read, state)[0]
            compared = torch.tanh(layers["query_layer"](state) + layers["key_layer"](values))
            context = torch.softmax(layers["energy_layer"](compared), dim=0).T @ values
            fed = torch.tanh(self.decoder["att_vector_layer"](torch.cat([state, context], dim=1)))
            found.append(self.decoder["output_layer"](fed).log_softmax(dim=1))
        return torch.cat(found)


def model() -> EncoderDecoder:
    return network.build(
        "attention", SOURCE, TARGET, bos_id=2, embedding_size=EMBEDDING, hidden_size=HIDDEN
    ).eval()


def test_our_weights_make_the_same_model_of_joeynmt() -> None:
    torch.manual_seed(0)
    peer, ours = Peer(), model()
    for name, weight in ours.named_parameters():
        nn.init.zeros_(weight) if name in MISSING else nn.init.normal_(weight)
    peer.load_state_dict(for_joeynmt(named_weights(ours)))
    source, inputs = torch.randint(SOURCE, (5,)), torch.randint(TARGET, (4,))
    with torch.no_grad():
        expected = peer(source, inputs)
        found = ours.log_probs(source[:, None], torch.tensor([5]), inputs[:, None])[:, 0]
    torch.testing.assert_close(found, expected)


def test_our_settings_build_the_model_of_joeynmt(tmp_path):
    """Defaults of the task may change; what is compared must not."""
    config = build_config(TranslateConfig, setup.our_config(tmp_path)["settings"], "benchmark")
    codecs = Codecs(*(Codec.build(["a b"], "space", reserved=setup.SPECIALS) for _ in range(2)))
    theirs = for_joeynmt(named_weights(Translator.initialise(config, codecs).model))
    read = setup.EMBEDDING + setup.DECODER
    assert theirs["decoder.rnn.weight_ih_l0"].shape == (3 * setup.DECODER, read)
    assert theirs["encoder.rnn.weight_ih_l0_reverse"].shape == (3 * setup.ENCODER, setup.EMBEDDING)
    assert theirs["decoder.att_vector_layer.weight"].shape == (setup.DECODER, 2 * setup.DECODER)


@pytest.fixture
def installs(tmp_path, monkeypatch):
    """The commands of an installation that is not run; all fail whose number is in `failing`."""
    commands, failing = [], set()

    def run(words, **_):
        commands.append(words)
        return subprocess.CompletedProcess(words, len(commands) in failing)

    monkeypatch.delenv("THROUGHTIME_JOEYNMT", raising=False)
    monkeypatch.setattr(setup, "OUT", tmp_path / "out")
    monkeypatch.setattr(setup, "PAUSE", 0.0)
    monkeypatch.setattr(setup.venv, "create", lambda folder, **_: folder.mkdir(parents=True, exist_ok=True))
    monkeypatch.setattr(setup.subprocess, "run", run)
    return commands, failing


def test_joeynmt_gets_an_environment_below_the_benchmarks_folder(installs):  # R114
    commands, failing = installs
    failing.add(1)  # an index that fails once
    python = setup.joeynmt_python()
    assert python.is_relative_to(setup.OUT)
    assert [words[0] for words in commands] == [str(python)] * 2
    assert f"torch=={torch.__version__.partition('+')[0]}" in commands[0]
    assert setup.joeynmt_python() == python
    assert len(commands) == 2  # it is there now
