"""The models of all tasks as people write them: torch's modules, padded or packed, and a loop over steps.

Each has the sizes, the dropout and the loss of ours; `loss` gives the mean over the targets of a batch.
Lengths stay on the host, where `pack_padded_sequence` needs them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from throughtime.data.batching.batches import Batch, real_positions

IGNORED = -100


class PlainModel(nn.Module):
    """A model with a loss; `batch` is on the device of the weights, `host` is the same batch on the CPU."""

    def loss(self, batch: Any, host: Any) -> Tensor:
        """The mean loss of the batch."""
        raise NotImplementedError


class PlainLanguage(PlainModel):
    """Embedding, nn.LSTM, tied softmax; the state goes from batch to batch."""

    def __init__(self, config: Any, words: int) -> None:
        super().__init__()
        width = config.hidden_size
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, config.num_layers, dropout=config.hidden_dropout)
        self.before, self.after = nn.Dropout(config.input_dropout), nn.Dropout(config.output_dropout)
        self.out = nn.Linear(width, words)
        self.out.weight = self.embedding.weight
        self.state: tuple[Tensor, Tensor] | None = None

    def loss(self, batch: Any, host: Any) -> Tensor:
        """The mean over all tokens."""
        state = self.state if batch.continues else None
        outputs, (h, c) = self.lstm(self.before(self.embedding(batch.inputs)), state)
        self.state = h.detach(), c.detach()
        logits = self.out(self.after(outputs))
        return functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten())


class PlainTranslator(PlainModel):
    """A bidirectional GRU, and GRU cells with additive attention: fed back, or between two cells."""

    def __init__(self, config: Any, sources: int, targets: int) -> None:
        super().__init__()
        size, width, narrow = config.hidden_size, config.embedding_size, config.hidden_size // 2
        self.conditional = config.structure == "conditional"
        self.smoothing = config.label_smoothing
        self.source, self.target = nn.Embedding(sources, width), nn.Embedding(targets, width)
        self.encoder = nn.GRU(width, narrow, bidirectional=True)
        self.first = nn.GRUCell(width + (0 if self.conditional else width), size)
        self.second = nn.GRUCell(size, size) if self.conditional else None
        self.key, self.query = nn.Linear(size, size), nn.Linear(size, size, bias=False)
        self.energy = nn.Linear(size, 1, bias=False)
        self.mix = nn.Linear(size + size + (width if self.conditional else 0), width)
        self.dropout, self.after = nn.Dropout(config.embedding_dropout), nn.Dropout(config.output_dropout)
        self.out = nn.Linear(width, targets)
        self.out.weight = self.target.weight

    def loss(self, batch: Any, host: Any) -> Tensor:
        """The mean over the target tokens, with smoothed labels."""
        embedded = self.dropout(self.source(batch.source))
        values, last = run_packed(self.encoder, embedded, host.source_lengths)
        values, state = values.transpose(0, 1), torch.cat([last[0], last[1]], -1)
        keys = self.key(values)
        padding = ~real_positions(len(batch.source), batch.source_lengths).T
        inputs = self.dropout(self.target(batch.inputs))
        fed = inputs.new_zeros(inputs.shape[1], inputs.shape[2])
        outputs = []
        for y in inputs:
            state = self.first(y if self.conditional else torch.cat([y, fed], -1), state)
            scores = self.energy(torch.tanh(self.query(state)[:, None] + keys))[..., 0]
            weights = scores.masked_fill(padding, -torch.inf).softmax(-1)
            context = torch.bmm(weights[:, None].to(values.dtype), values)[:, 0]
            if self.second is not None:
                state = self.second(context, state)
            read = [state, context, y] if self.conditional else [state, context]
            fed = torch.tanh(self.mix(torch.cat([part.to(state.dtype) for part in read], -1)))
            outputs.append(fed)
        logits = self.out(self.after(torch.stack(outputs)))
        real = real_positions(len(batch.labels), batch.target_lengths)
        labels = torch.where(real, batch.labels, IGNORED)
        return functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, label_smoothing=self.smoothing
        )


class PlainChain(nn.Module):
    """The surprisal of tags under a linear-chain CRF, step by step, as the usual packages have it."""

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.transitions = nn.Parameter(torch.zeros(tags, tags))
        self.first, self.last = nn.Parameter(torch.zeros(tags)), nn.Parameter(torch.zeros(tags))

    def forward(self, scores: Tensor, tags: Tensor, inside: Tensor) -> Tensor:
        """The sum over the sentences; scores are [T, B, S], `inside` is [T, B]."""
        steps, rows = tags.shape
        every = torch.arange(rows, device=tags.device)
        own = self.first[tags[0]] + scores[0, every, tags[0]]
        reached = self.first + scores[0]
        for t in range(1, steps):
            step = self.transitions[tags[t - 1], tags[t]] + scores[t, every, tags[t]]
            own = own + step * inside[t]
            paths = torch.logsumexp(reached[:, :, None] + self.transitions + scores[t, :, None], 1)
            reached = torch.where(inside[t, :, None], paths, reached)
        ends = inside.long().sum(0) - 1
        own = own + self.last[tags[ends, every]]
        return (torch.logsumexp(reached + self.last, 1) - own).sum()


class PlainTagger(PlainModel):
    """Words and their letters, read by packed LSTMs in both directions, and a CRF."""

    def __init__(self, config: Any, words: int, letters: int, tags: int, labels: int) -> None:
        super().__init__()
        size, character = config.hidden_size, config.character_hidden_size
        self.words = nn.Embedding(words, config.word_size)
        self.letters = nn.Embedding(letters, config.character_size)
        self.spelling = nn.LSTM(config.character_size, character, bidirectional=True)
        width, layers = config.word_size + 2 * character, config.num_layers
        self.lstm = nn.LSTM(width, size, layers, dropout=config.hidden_dropout, bidirectional=True)
        self.before, self.after = nn.Dropout(config.input_dropout), nn.Dropout(config.output_dropout)
        self.word_dropout = config.word_dropout
        self.scores, self.chain = nn.Linear(2 * size, tags), PlainChain(tags)
        self.labels = nn.Linear(4 * size, labels) if labels else None

    def loss(self, batch: Any, host: Any) -> Tensor:
        """The mean over the words, and the loss of the sentences' labels."""
        lost = torch.rand(batch.words.shape, device=batch.words.device) < self.word_dropout
        _, spelled = run_packed(self.spelling, self.letters(batch.characters), host.character_lengths)
        forms = torch.cat([spelled[0][0], spelled[0][1]], -1)[batch.spelled]
        x = torch.cat([self.words(batch.words.masked_fill(lost, 1)), forms.float()], -1)
        states, _ = run_packed(self.lstm, self.before(x), host.lengths)
        states = self.after(states)
        inside = real_positions(len(batch.words), batch.lengths)
        total: Tensor = self.chain(self.scores(states).float(), batch.tags, inside)
        if self.labels is not None:
            mean = states.sum(0) / batch.lengths[:, None]
            most = states.masked_fill(~inside[..., None], -torch.inf).amax(0)
            labels = self.labels(torch.cat([mean, most], -1))
            total = total + functional.cross_entropy(labels.float(), batch.labels, reduction="sum")
        return total / int(batch.count)


class PlainFiller(PlainModel):
    """Packed LSTMs in both directions over sentences with masks, and a tied softmax at the masks."""

    def __init__(self, config: Any, words: int, mask_id: int) -> None:
        super().__init__()
        width, size = config.embedding_size, config.hidden_size
        self.embedding, self.mask_id = nn.Embedding(words, width), mask_id
        self.lstm = nn.LSTM(width, size, config.num_layers, dropout=config.hidden_dropout, bidirectional=True)
        self.projection = nn.Linear(2 * size, width)
        self.before, self.after = nn.Dropout(config.embedding_dropout), nn.Dropout(config.output_dropout)
        self.out = nn.Linear(width, words)
        self.out.weight = self.embedding.weight

    def loss(self, batch: Any, host: Any) -> Tensor:
        """The mean over the masked tokens."""
        places, ids = batch.places, batch.ids
        masked = ids.flatten().index_fill(0, places, self.mask_id).view_as(ids)
        states, _ = run_packed(self.lstm, self.before(self.embedding(masked)), host.lengths)
        asked = self.after(self.projection(states.flatten(0, 1)[places]))
        return functional.cross_entropy(self.out(asked), ids.flatten()[places])


class PlainClassifier(PlainModel):
    """A packed LSTM in both directions, the highest value of each unit, and a softmax."""

    def __init__(self, config: Any, words: int, labels: int, unknown_id: int | None) -> None:
        super().__init__()
        width, size = config.embedding_size, config.hidden_size
        self.embedding, self.unknown_id = nn.Embedding(words, width), unknown_id or 0
        self.lstm = nn.LSTM(width, size, bidirectional=True)
        self.before, self.after = nn.Dropout(config.embedding_dropout), nn.Dropout(config.output_dropout)
        self.word_dropout = config.word_dropout
        self.out = nn.Linear(2 * size, labels)

    def loss(self, batch: Any, host: Any) -> Tensor:
        """The mean over the texts."""
        lost = torch.rand(batch.ids.shape, device=batch.ids.device) < self.word_dropout
        embedded = self.before(self.embedding(batch.ids.masked_fill(lost, self.unknown_id)))
        states, _ = run_packed(self.lstm, embedded, host.lengths)
        padding = ~real_positions(len(states), batch.lengths)[..., None]
        pooled = states.masked_fill(padding, -torch.inf).amax(0)
        return functional.cross_entropy(self.out(self.after(pooled)), batch.labels)


class PlainComposer(PlainModel):
    """An LSTM that starts from the vector of a label and reads it at each step, and a tied softmax."""

    def __init__(self, config: Any, words: int, labels: int) -> None:
        super().__init__()
        size, given = config.hidden_size, config.condition_size
        self.condition, self.embedding = nn.Embedding(labels, given), nn.Embedding(words, size)
        self.first = nn.Linear(given, 2 * size)
        self.lstm = nn.LSTM(size + given, size)
        self.before, self.after = nn.Dropout(config.embedding_dropout), nn.Dropout(config.output_dropout)
        self.out = nn.Linear(size, words)
        self.out.weight = self.embedding.weight

    def loss(self, batch: Any, host: Any) -> Tensor:
        """The mean over the tokens."""
        condition = self.condition(batch.source[0])
        h, c = torch.tanh(self.first(condition)).chunk(2, -1)
        embedded = self.before(self.embedding(batch.inputs))
        x = torch.cat([embedded, condition.expand(len(embedded), -1, -1)], -1)
        outputs, _ = self.lstm(x, (h[None].contiguous(), c[None].contiguous()))
        logits = self.out(self.after(outputs))
        real = real_positions(len(batch.labels), batch.target_lengths)
        labels = torch.where(real, batch.labels, IGNORED)
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)


class PlainForecaster(PlainModel):
    """A GRU over the look-back whose last output gives quantiles of the horizon, added to a linear map."""

    probabilities: Tensor

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.lookback, self.horizon, self.width = config.lookback, config.horizon, len(config.probabilities)
        self.gru = nn.GRU(1, config.hidden_size)
        self.out = nn.Linear(config.hidden_size, self.horizon * self.width)
        self.linear = nn.Linear(self.lookback, self.horizon)
        self.register_buffer("probabilities", torch.tensor(config.probabilities))

    def loss(self, batch: Any, host: Any) -> Tensor:
        """The mean pinball loss over the observed values of the horizon."""
        values, weights = batch.values, batch.weights[self.lookback :]
        past = values[: self.lookback] - values[self.lookback - 1]
        future = values[self.lookback :] - values[self.lookback - 1]
        outputs, _ = self.gru(past[..., None])
        found = self.out(outputs[-1]).float().view(-1, self.horizon, self.width).transpose(0, 1)
        middle = self.width // 2
        centre = found[..., middle : middle + 1] + self.linear(past.T).T[..., None]
        above = centre + functional.softplus(found[..., middle + 1 :]).cumsum(-1)
        below = centre - functional.softplus(found[..., :middle]).flip(-1).cumsum(-1).flip(-1)
        over = future[..., None] - torch.cat([below, centre, above], -1)
        losses = torch.maximum(self.probabilities * over, (self.probabilities - 1) * over).mean(-1)
        mean: Tensor = (losses * weights).sum() / weights.sum()
        return mean


def run_packed(module: nn.RNNBase, x: Tensor, lengths: Tensor) -> tuple[Tensor, Any]:
    """Outputs [T, B, H], zero past each row's length, and the last state."""
    packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
    outputs, last = module(packed)
    return pad_packed_sequence(outputs, total_length=len(x))[0], last


def build_plain(task: str, predictor: Any) -> PlainModel:
    """The plain model with the sizes of ours."""
    config, model = predictor.config, predictor.model
    if task == "language":
        return PlainLanguage(config, model.vocabulary_size)
    if task == "translate":
        return PlainTranslator(config, *(len(codec.vocabulary) for codec in predictor.codecs))
    if task == "tag":
        labels = 0 if model.labels is None else model.labels.out_features
        words, letters = model.embedding.num_embeddings, model.spelling.embedding.num_embeddings
        return PlainTagger(config, words, letters, model.scores.out_features, labels)
    if task == "fill":
        return PlainFiller(config, model.embedding.num_embeddings, model.mask_id)
    if task == "classify":
        words = model.encoder.embedding.num_embeddings
        return PlainClassifier(config, words, len(model.head.weight), model.unknown_id)
    if task == "compose":
        return PlainComposer(
            config, model.decoder.embedding.num_embeddings, model.encoder.table.num_embeddings
        )
    return PlainForecaster(config)


class PlainTraining:
    """A training loop: bf16 autocast, fused AdamW, clipping; batches are ready in pinned memory."""

    def __init__(self, model: PlainModel, hosts: list[Batch], config: Any, device: torch.device) -> None:
        self.model, self.hosts, self.clip, self.device = model.to(device).train(), hosts, config.clip, device
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=config.lr, fused=True)
        self.done = self.graphs = self.warm_up_updates = 0
        self.messages: list[str] = []

    def update(self) -> int:
        """Take one step; returns the number of its targets."""
        host = self.hosts[self.done % len(self.hosts)]
        self.done += 1
        batch = host.to(self.device, non_blocking=True)
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, torch.bfloat16):
            loss = self.model.loss(batch, host)
        loss.backward()
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        return host.count
