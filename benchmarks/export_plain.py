"""The same translator as people write it with torch's own modules: what an export is compared with."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from throughtime.layers.attention import Additive
from throughtime.models.decoders import AttentionDecoder
from throughtime.models.encoders import RecurrentEncoder
from throughtime.models.seq2seq import EncoderDecoder


class PlainTranslator(nn.Module):
    """A bidirectional nn.GRU, additive attention, an nn.GRU that is fed its last output, an nn.Linear."""

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        encoder, decoder = model.encoder, model.decoder
        assert isinstance(encoder, RecurrentEncoder)
        assert isinstance(decoder, AttentionDecoder)
        assert isinstance(decoder.attention, Additive)
        assert decoder.bridge is not None
        self.source, self.target = encoder.embedding, decoder.embedding
        self.encoder, self.decoder = encoder.stack.to_torch(), decoder.stack.to_torch()
        self.bridge = decoder.bridge.layers[0] if decoder.bridge.layers else nn.Identity()
        self.bridged = bool(decoder.bridge.layers)
        self.query, self.key, energy = (
            decoder.attention.query,
            decoder.attention.key,
            decoder.attention.energy,
        )
        self.energy = nn.Linear(len(energy), 1, bias=False)
        self.output = nn.Linear(decoder.stack.output_size + encoder.output_size, decoder.output_size)
        self.words = nn.Linear(decoder.output_size, self.target.num_embeddings)
        with torch.no_grad():
            self.energy.weight.copy_(energy[None])
            self.output.weight.copy_(torch.cat([decoder.from_state.weight, decoder.from_context.weight], 1))
            self.output.bias.copy_(decoder.from_state.bias)
            self.words.weight.copy_(model.head.weight)  # type: ignore[arg-type]
            self.words.bias.copy_(model.head.bias)  # type: ignore[arg-type]

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """One sentence [T]: its outputs [1, T, H] and the decoder's first state [1, 1, H]."""
        outputs, last = self.encoder(self.source(source)[:, None])
        state = torch.cat([last[0], last[1]], -1)
        return outputs.transpose(0, 1), (torch.tanh(self.bridge(state)) if self.bridged else state)[None]

    def step(
        self, last: Tensor, fed: Tensor, state: Tensor, outputs: Tensor, keys: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One token of each hypothesis: ln P of the next, what is fed to it, the state."""
        x = torch.cat([self.target(last), fed], -1)
        seen, state = self.decoder(x[None], state)
        seen = seen[0]
        scores = self.energy(torch.tanh(self.query(seen)[:, None] + keys)).squeeze(-1)
        context = torch.bmm(scores.softmax(-1)[:, None], outputs).squeeze(1)
        fed = torch.tanh(self.output(torch.cat([seen, context], -1)))
        return self.words(fed).log_softmax(-1), fed, state


@torch.inference_mode()
def beam_search(
    model: PlainTranslator, source: list[int], *, begin: int, end: int, width: int, alpha: float, most: int
) -> list[int]:
    """The usual loop: all hypotheses as a batch, the best of all continuations, until enough have ended."""
    outputs, state = model.encode(torch.tensor(source))
    outputs, state = outputs.expand(width, -1, -1).contiguous(), state.expand(-1, width, -1).contiguous()
    keys = model.key(outputs)
    fed = torch.zeros(width, model.output.out_features)
    tokens = torch.full((width, 1), begin)
    totals = torch.full((width,), -torch.inf)
    totals[0] = 0.0  # all begin alike: one of them counts
    ended: list[tuple[float, list[int]]] = []
    for length in range(1, most + 1):
        log_probs, fed, state = model.step(tokens[:, -1], fed, state, outputs, keys)
        words = log_probs.shape[1]
        best, place = (totals[:, None] + log_probs).view(-1).topk(2 * width)
        rows, chosen = place // words, place % words
        going_on: list[int] = []
        for number, (row, token) in enumerate(zip(rows.tolist(), chosen.tolist(), strict=True)):
            if token == end:
                ended.append((best[number].item() / length**alpha, tokens[row, 1:].tolist()))
            else:
                going_on.append(number)
            if len(going_on) == width:
                break
        if len(ended) >= width:
            break
        kept = torch.tensor(going_on)
        rows = rows[kept]
        tokens = torch.cat([tokens[rows], chosen[kept, None]], 1)
        totals, fed, state = best[kept], fed[rows], state[:, rows]
    if not ended:
        ended = [(0.0, tokens[0, 1:].tolist())]
    return max(ended)[1]
