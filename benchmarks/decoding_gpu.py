"""Decoding on a GPU: searches replayed from CUDA graphs, the plain loop, and a beam search in plain PyTorch.

    python -m benchmarks decoding_gpu

Sentences per second with 64 sentences at a time, from source ids to target ids, on a translator of the size
used for Multi30k. It has learned an artificial language for some seconds, so that its translations end where
those of a real one do. Replayed and plain searches must find the same sentences. The plain PyTorch search has
the same weights and beams, its rows stay in the batch, and it stops once every sentence has as many
results as beams.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from throughtime.layers.devices import matmul_precision
from throughtime.models.decoders import AttentionDecoder
from throughtime.models.encoders import RecurrentEncoder
from throughtime.models.search_models import Bf16Model
from throughtime.models.seq2seq import EncoderDecoder
from throughtime.search.beam import Beam
from throughtime.search.constraints import no_token
from throughtime.search.generate import Finished, StepModel, Strategy, generate
from throughtime.search.sampling import Greedy
from throughtime.tasks.translate.network import build

PAD, BOS, EOS, UNK, WORDS = 0, 1, 2, 3, 8_000
BATCH, BEAMS, MAX_LENGTH = 64, 5, 48
UPDATES, LESSONS, LEARNED_AT_ONCE = 300, 40, 256

Prompts = list[list[int]]


def draw_prompts(count: int, source: torch.Generator) -> Prompts:
    """Sentences of 7 to 15 words and an end mark; frequent words have small numbers."""
    lengths = torch.randint(7, 16, (count,), generator=source).tolist()
    drawn = [torch.rand(length, generator=source) for length in lengths]
    return [[*((WORDS - 4) ** part).long().add(4).clamp(max=WORDS - 1).tolist(), EOS] for part in drawn]


def translate(prompt: list[int]) -> list[int]:
    """The artificial language: another word for each word, in the same order."""
    return [4 + (word * 7 + 5) % (WORDS - 4) for word in prompt[:-1]]


def build_lesson(prompts: Prompts, device: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sources and their lengths, and targets as they are shown and expected."""
    targets = [translate(one) for one in prompts]
    inputs = pad_sequence([torch.tensor(one) for one in prompts])
    shown = pad_sequence([torch.tensor([BOS, *one]) for one in targets])
    labels = pad_sequence([torch.tensor([*one, EOS]) for one in targets], padding_value=-100)
    lengths = torch.tensor([len(one) for one in prompts])
    return inputs.to(device), lengths, shown.to(device), labels.to(device)


def build_model(device: str = "cuda", updates: int = UPDATES) -> EncoderDecoder:
    """A translator that has learned for some seconds."""
    torch.manual_seed(0)
    model = build("attention", WORDS, WORDS, bos_id=BOS, embedding_size=256, hidden_size=512).to(device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    source = torch.Generator().manual_seed(1)
    lessons = [build_lesson(draw_prompts(LEARNED_AT_ONCE, source), device) for _ in range(LESSONS)]
    for update in range(updates):
        inputs, lengths, shown, labels = lessons[update % LESSONS]
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            outputs = model(inputs, lengths, shown).outputs
            loss = model.head.loss(outputs, labels) / int(lengths.sum())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


class PlainTranslator(nn.Module):
    """The same network from torch's modules, and the beam search that is usually written for it."""

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        encoder, decoder = model.encoder, model.decoder
        assert isinstance(encoder, RecurrentEncoder)
        assert isinstance(decoder, AttentionDecoder)
        self.source, self.target = encoder.embedding, decoder.embedding
        self.encoder, self.bridge = encoder.stack.to_torch(), cast(nn.Module, decoder.bridge)
        whole = decoder.stack.to_torch()
        self.cell = nn.GRUCell(whole.input_size, whole.hidden_size).to(next(model.parameters()).device)
        self.cell.load_state_dict(
            {name.removesuffix("_l0"): weight for name, weight in whole.state_dict().items()}
        )
        self.attention: Any = decoder.attention
        self.from_state, self.from_context = decoder.from_state, decoder.from_context
        self.words: Any = model.head

    def step(
        self, last: Tensor, h: Tensor, fed: Tensor, keys: Tensor, values: Tensor, padding: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One token for each row, which has its own copy of keys and values."""
        h = self.cell(torch.cat([self.target(last), fed], dim=1), h)
        scores = torch.tanh(self.attention.query(h)[:, None] + keys) @ self.attention.energy
        weights = scores.masked_fill(padding, -torch.inf).softmax(dim=1)
        context = torch.bmm(weights[:, None], values)[:, 0]
        fed = torch.tanh(self.from_state(h) + self.from_context(context))
        return nn.functional.linear(fed, self.words.weight, self.words.bias).log_softmax(dim=1), h, fed

    @torch.inference_mode()
    def search(self, prompts: Prompts, beams: int, penalty: float = 0.75) -> list[list[int]]:
        """The best translation of each sentence."""
        device, batch = self.words.weight.device, len(prompts)
        source = pad_sequence([torch.tensor(one) for one in prompts]).to(device)
        lengths = torch.tensor([len(one) for one in prompts])
        packed = nn.utils.rnn.pack_padded_sequence(self.source(source), lengths, enforce_sorted=False)
        outputs, last = self.encoder(packed)
        values = nn.utils.rnn.pad_packed_sequence(outputs)[0].transpose(0, 1)
        (h,) = self.bridge((torch.cat([last[0], last[1]], dim=1),))
        padding = torch.arange(values.shape[1], device=device) >= lengths.to(device)[:, None]
        tensors = h, self.attention.key(values), values, padding
        h, keys, values, padding = (part.repeat_interleave(beams, dim=0) for part in tensors)
        fed = h.new_zeros(len(h), self.from_state.out_features)
        scores = torch.full((batch, beams), -torch.inf, device=device)
        scores[:, 0] = 0
        tokens = torch.full((batch * beams, 1), BOS, device=device)
        first = torch.arange(0, batch * beams, beams, device=device)[:, None]
        finished: list[list[tuple[float, list[int]]]] = [[] for _ in prompts]
        for length in range(1, MAX_LENGTH + 1):
            log_probs, h, fed = self.step(tokens[:, -1], h, fed, keys, values, padding)
            log_probs[:, UNK] = log_probs[:, PAD] = log_probs[:, BOS] = -torch.inf
            totals = (scores[:, :, None] + log_probs.view(batch, beams, -1)).flatten(1)
            scores, places = totals.topk(beams, dim=1)
            rows = (first + places // log_probs.shape[1]).flatten()
            tokens = torch.cat([tokens[rows], (places % log_probs.shape[1]).view(-1, 1)], dim=1)
            h, fed = h[rows], fed[rows]
            ended = tokens[:, -1].view(batch, beams) == EOS
            if bool(ended.any()):
                for sentence, beam in ended.nonzero().tolist():
                    score = float(scores[sentence, beam]) / length**penalty
                    finished[sentence].append((score, tokens[sentence * beams + beam, 1:-1].tolist()))
                scores = scores.masked_fill(ended, -torch.inf)
            if all(len(found) >= beams for found in finished):
                break
        return [max(found)[1] if found else [] for found in finished]


def clock(search: Callable[[Prompts], Any], batches: list[Prompts], rounds: int = 3) -> float:
    """Sentences per second, from the fastest of some rounds over the batches."""
    search(batches[0])
    best = float("inf")
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for batch in batches:
            search(batch)
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return sum(map(len, batches)) / best


def compare(model: EncoderDecoder, batches: list[Prompts], beams: int, precision: str) -> dict[str, Any]:
    """One row of the table."""
    searched: StepModel = Bf16Model(model) if precision == "bf16" else model

    def strategy() -> Strategy:
        return Beam(EOS, beams, max_length=MAX_LENGTH) if beams > 1 else Greedy(EOS)

    def search(batch: Prompts, watch: Callable[[Any], None] | None = None) -> list[list[Finished]]:
        constraints = [no_token(PAD, BOS, UNK)]
        with matmul_precision("float32"):
            return generate(
                searched, batch, strategy(), max_new_tokens=MAX_LENGTH, constraints=constraints, watch=watch
            )

    torch.cuda.synchronize()
    start = time.perf_counter()
    search(batches[0])
    first = time.perf_counter() - start
    pairs = [
        (one, other)
        for batch in batches
        for one, other in zip(search(batch), search(batch, lambda moment: None), strict=True)
    ]
    plain = PlainTranslator(model)
    with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
        torch_rate = clock(lambda batch: plain.search(batch, beams), batches[:2], rounds=2)
        torch_found = [found for batch in batches for found in plain.search(batch, beams)]
    same = [one[0].tokens == other[0].tokens for one, other in pairs]
    return {
        "beams": beams,
        "precision": precision,
        "replayed": clock(search, batches),
        "plain": clock(lambda batch: search(batch, lambda moment: None), batches[:2], rounds=2),
        "torch": torch_rate,
        "recording_seconds": first,
        "different": same.count(False),
        "different_from_torch": sum(
            list(one[0].tokens) != other for (one, _), other in zip(pairs, torch_found, strict=True)
        ),
        "score_difference": max(abs(one[0].score - other[0].score) for one, other in pairs),
        "tokens": sum(len(one[0].tokens) for one, _ in pairs) / len(pairs),
        "sentences": len(pairs),
    }


def run() -> dict[str, Any]:
    """The whole benchmark, where there is a GPU."""
    if not torch.cuda.is_available():
        print("no GPU on this machine: nothing to clock", file=sys.stderr)
        return {"skipped": "no GPU"}
    model = build_model()
    source = torch.Generator().manual_seed(2)
    batches = [draw_prompts(BATCH, source) for _ in range(6)]
    print(
        f"{'':18}{'replayed':>9}{'plain':>7}{'torch':>7}  sentences per second, {BATCH} at a time",
        file=sys.stderr,
    )
    rows = []
    for beams in (BEAMS, 1):
        for precision in ("float32", "bf16"):
            row = compare(model, batches, beams, precision)
            rows.append(row)
            print(
                f"{beams} beams, {precision:9}{row['replayed']:9,.0f}{row['plain']:7,.0f}{row['torch']:7,.0f}"
                f"  {row['replayed'] / row['plain']:.1f} and {row['replayed'] / row['torch']:.1f} times; "
                f"{row['different']} of {row['sentences']} sentences differ, "
                f"{row['different_from_torch']} from torch's; {row['tokens']:.1f} tokens; "
                f"first search {row['recording_seconds']:.2f} s",
                file=sys.stderr,
                flush=True,
            )
    return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}
