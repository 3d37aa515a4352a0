"""The demo: what a newcomer sees first."""

from __future__ import annotations


def test_the_demo_counts_judges_writes_ranks_and_draws(throughtime, tmp_path):
    ran = throughtime("demo", "--out", tmp_path / "demo", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["perplexity"] < ran.json["uniform_perplexity"] / 10
    assert len(ran.json["texts"]) == 6
    winners = [first["text"] for first, second in ran.json["ranking"]]
    assert winners == ["it is hard to recognize speech", "dog bites man", "I want to eat, grandma"]  # R17
    assert (tmp_path / "demo" / "zipf.png").read_bytes().startswith(b"\x89PNG")
    again = throughtime("demo", "--out", tmp_path / "demo")
    assert "Using the model in" in again.err
    assert "less likely" in again.out
