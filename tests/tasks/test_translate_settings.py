"""Settings of translators from the notes: switches of the decoder, teacher forcing, lowercase."""

from __future__ import annotations

import pytest
from tests.refusals import refuses

import throughtime as tt
from throughtime.tasks.translate.config import TranslateConfig
from throughtime.tasks.translate.training import forcing_ratio
from throughtime.text.codec import Codec

PAIRS = [("Go.", "Va !"), ("Hi Tom.", "Salut Tom !"), ("Run!", "Cours !"), ("Who?", "Qui ?")] * 12
TINY = {"epochs": 2, "batch_size": 8, "hidden_size": 8, "embedding_size": 8, "progress": "none"}
TINY |= {"source": "en", "target": "fr", "tokens": "unicode"}


@pytest.mark.parametrize("schedule", ["linear", "inverse-sigmoid"])
def test_the_ratio_of_teacher_forcing_falls_from_first_to_last(schedule: str) -> None:  # R86
    given = {"teacher_forcing": 0.9, "final_teacher_forcing": 0.3, "teacher_forcing_schedule": schedule}
    config = TranslateConfig(data="x", **given)
    ratios = [forcing_ratio(config, done / 20) for done in range(21)]
    assert (ratios[0], ratios[-1]) == pytest.approx((0.9, 0.3))
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[10] == pytest.approx(0.6)
    if schedule == "inverse-sigmoid":  # slow at both ends, fast in the middle
        assert ratios[0] - ratios[1] < (ratios[9] - ratios[10]) / 4
    assert forcing_ratio(TranslateConfig(data="x", teacher_forcing=0.7), 0.5) == 0.7


def test_training_follows_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:  # R86
    from throughtime.models.seq2seq import EncoderDecoder

    ratios: list[float] = []
    plain = EncoderDecoder.run_scheduled

    def scheduled(self, source, lengths, inputs, ratio, **options):
        ratios.append(ratio)
        return plain(self, source, lengths, inputs, ratio, **options)

    monkeypatch.setattr(EncoderDecoder, "run_scheduled", scheduled)
    tt.train("translate", PAIRS, **TINY, teacher_forcing_schedule="linear", final_teacher_forcing=0.5)
    assert (ratios[0], ratios[-1]) == pytest.approx((1.0, 0.5))
    assert len(set(ratios)) == len(ratios) > 5


def test_switches_that_hide_the_source_are_refused() -> None:  # R83
    with refuses("feed_context", "initial_state"):
        tt.train("translate", PAIRS, **TINY, structure="seq2seq", initial_state="zero")
    with refuses("feed_token", "attention"):
        tt.train("translate", PAIRS, **TINY, feed_token=False)
    with refuses("teacher_forcing"):
        tt.train("translate", PAIRS, **TINY, structure="main", feed_token=False, teacher_forcing=0.5)


@pytest.mark.parametrize("structure", ["seq2seq", "main"])
def test_plain_sequence_to_sequence_trains_and_translates(structure: str, tmp_path) -> None:  # R83
    model = tt.train("translate", PAIRS, out=tmp_path / "run", **{**TINY, "structure": structure})
    assert isinstance(tt.load(tmp_path / "run").translate("Go.")[0].text, str)
    assert model.config.switches.feed_context == (structure == "main")


@pytest.mark.parametrize("tokens", ["unicode", "char", "wordpiece", "bpe", "unigram"])
def test_lowercase_reads_and_writes_small_letters(tokens: str) -> None:  # R104
    codec = Codec.build(["Hey RANDY, lunch yet?"] * 3, tokens, max_size=400, lowercase=True)
    assert codec.decode(codec.encode("Hey Randy")) == "hey randy"
    assert codec.encode("HEY") == codec.encode("hey")


def test_a_tokenizer_that_keeps_case_refuses_lowercase(tmp_path) -> None:
    with refuses("lowercase", "space"):
        Codec.build(["A b"], "space", lowercase=True)
    Codec.build(["Abc abd"] * 9, "bpe", max_size=300).save(tmp_path)
    with refuses("lowercase", "'file'"):
        Codec.build(["A b"], str(tmp_path / "tokenizer.json"), lowercase=True)
    model = tt.train("translate", PAIRS, **{**TINY, "tokens": "wordpiece"}, lowercase=True)
    assert model.translate("GO.") == model.translate("go.")
