"""A writer from conditions with the network and the settings that made it: trained, judged and saved."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import torch

from throughtime.data.batching import RaggedIds, Specials
from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.search import Beam, Constraint, Greedy, Moment, Sampling, Strategy, generate, no_token
from throughtime.tasks.compose.config import ComposeConfig
from throughtime.tasks.compose.network import ConditionedLanguageModel
from throughtime.tasks.compose.training import ConditionedTexts
from throughtime.tasks.labels import Labels, labelled
from throughtime.tasks.report import Asked, Progress, Report, refuse_others, trained_for
from throughtime.tasks.translate.decoding_constraints import Wishes
from throughtime.text.codec import Codec
from throughtime.text.texts import several
from throughtime.train.devices import products

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

TASK = "compose"
CONDITIONS_AT_ONCE = 64

Condition = str | Sequence[float]
"""A label, or a vector."""


@dataclass(frozen=True)
class Composed:
    """A text that the model wrote."""

    text: str
    score: float  # what the search ranks by
    log_prob: float
    ended: bool  # False where the length cap cut it

    def values(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


class TrainedComposer:
    """A network that writes from labels, or where there are none from vectors of `width` numbers."""

    def __init__(
        self, model: ConditionedLanguageModel, codec: Codec, labels: Labels | None, config: ComposeConfig
    ) -> None:
        self.model, self.codec, self.labels, self.config = model, codec, labels, config
        self.width = config.vector_size or 0
        self.generation: dict[str, Any] = {"do_sample": True, "temperature": 1.0, "max_new_tokens": 100}

    def compose(
        self,
        conditions: Sequence[Condition],
        *,
        num_return_sequences: int = 1,
        greedy: bool | None = None,
        num_beams: int | None = None,
        length_penalty: float = 0.75,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        max_new_tokens: int | None = None,
        wishes: Wishes | None = None,
        progress: Progress | None = None,
        watch: Callable[[Moment], None] | None = None,
    ) -> list[list[Composed]]:
        """Texts for each label or vector, the best first, in the order of the conditions.

        They are drawn, unless `greedy` or `num_beams` ask for the likeliest; what is not given comes from
        generation_config.json. `watch` is called at every step, and may raise to stop.
        """
        prompts = [self.condition(one) for one in conditions]
        most = max_new_tokens or int(self.generation.get("max_new_tokens", 100))
        found: list[list[Composed]] = []
        self.model.eval()
        for first in range(0, len(prompts), CONDITIONS_AT_ONCE):
            batch = prompts[first : first + CONDITIONS_AT_ONCE]
            strategy = self.strategy(
                greedy=greedy,
                num_beams=num_beams,
                length_penalty=length_penalty,
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                num_return_sequences=num_return_sequences,
                # Each batch draws anew: equal conditions far apart must not get equal texts.
                seed=None if seed is None else seed + first,
                max_new_tokens=most,
            )
            rules = [self._marks()]
            if wishes is not None:
                rules += wishes.constraints(len(batch), self.codec, self._end_id, most)
            with products("float32"):
                # A search hands prompts through to the model, which here takes numbers of any kind.
                given = cast(Sequence[Sequence[int]], batch)
                results = generate(
                    self.model, given, strategy, max_new_tokens=most, constraints=rules, watch=watch
                )
            found += [
                [Composed(self.codec.decode(one.tokens), one.score, one.log_prob, one.ended) for one in own]
                for own in results
            ]
            if progress is not None:
                progress(len(found), len(prompts))
        return found

    def strategy(
        self,
        *,
        greedy: bool | None = None,
        num_beams: int | None = None,
        length_penalty: float = 0.75,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        num_return_sequences: int = 1,
        seed: int | None = None,
        max_new_tokens: int | None = None,
    ) -> Strategy:
        """Greedy search, a beam, or sampling; what is not given comes from generation_config.json."""
        chosen, end = self.generation, self._end_id
        if num_beams is not None:
            if num_return_sequences > num_beams:
                raise InputError(
                    "--num-return-sequences",
                    f"is {num_return_sequences}, but a beam of {num_beams} finds at most as many texts",
                )
            return Beam(
                end,
                num_beams,
                alpha=length_penalty,
                n_best=num_return_sequences,
                max_length=max_new_tokens,
            )
        if greedy if greedy is not None else not chosen.get("do_sample", True):
            if num_return_sequences > 1:
                raise InputError("--num-return-sequences", "is for drawn texts and beams; greedy finds one")
            return Greedy(end)
        return Sampling(
            end,
            temperature=temperature if temperature is not None else chosen.get("temperature", 1.0),
            top_k=top_k if top_k is not None else chosen.get("top_k"),
            top_p=top_p if top_p is not None else chosen.get("top_p"),
            each=num_return_sequences,
            seed=seed,
        )

    def condition(self, given: Condition) -> list[float]:
        """A label or a vector as the network takes it."""
        if self.labels is not None:
            if not isinstance(given, str):
                raise InputError("--vector", "is given, but this model writes from a label; use --label")
            return [self.labels.number(given)]
        if isinstance(given, str):
            raise InputError("--label", "is given, but this model writes from a vector; use --vector")
        if len(given) != self.width or not all(math.isfinite(number) for number in given):
            raise InputError(
                "--vector", f"is of length {len(given)}, this model writes from {self.width} finite numbers"
            )
        return [float(number) for number in given]

    def texts(self, dataset: Dataset, split: str) -> ConditionedTexts:
        """The texts of a split with their conditions, without those whose labels training did not know."""
        if self.labels is None:
            described = list(dataset.records(split)) if dataset.kind == "described" else []
            if not all(len(one.vector) == self.width for one in described):
                raise InputError(dataset.name, f"has vectors of another length than {self.width}")
            texts = [one.text for one in described]
            conditions = torch.tensor([one.vector for one in described]).view(len(texts), self.width)
        else:
            known = [one for one in labelled(dataset, split) if one.label in self.labels]
            texts = [one.text for one in known]
            conditions = torch.tensor([self.labels.number(one.label) for one in known], dtype=torch.long)
        if not texts:
            kind = "labels" if self.labels is not None else "vectors"
            raise InputError(f"{dataset.name}, split {split}", f"holds no text with {kind} of this model")
        return ConditionedTexts(
            RaggedIds.of(self.codec.encode(text) for text in texts), conditions, self.specials
        )

    def examples(self, texts: ConditionedTexts, most: int) -> list[Condition]:
        """A few different conditions: the most frequent labels, or the first vectors."""
        if self.labels is not None:
            counts = self.labels.counts
            return [*sorted(counts, key=lambda name: -counts[name])[:most]]
        return [*texts.conditions[:most].tolist()]

    def report(self, dataset: Dataset, split: str, asked: Asked, progress: Progress | None = None) -> Report:
        """What `throughtime evaluate` shows of a split: perplexity, and what the condition is worth."""
        refuse_others(asked, (), "is not for models that compose")
        texts = self.texts(dataset, split)
        labels = None if self.labels is None else len(self.labels)
        self.model.eval()
        with products("float32"):
            given = texts.likelihood(self.model)
            other = texts.with_others(labels).likelihood(self.model)
        worth = (other.nats - given.nats) / math.log(2)
        values = {
            "perplexity": given.perplexity,
            "perplexity_shuffled": other.perplexity,
            "cross_entropy": given.cross_entropy,
            "bits_per_token": given.bits_per_token,
            "worth_bits_per_token": worth / given.tokens,
            "worth_bits_per_text": worth / len(texts),
            "texts": len(texts),
            "tokens": given.tokens,
        }
        kind = "vector" if self.labels is None else "label"
        text = (
            f"{dataset.name}, {split}: perplexity [bold]{given.perplexity:.2f}[/bold] given the {kind}, "
            f"{other.perplexity:.2f} given a wrong one\n"
            f"the {kind} is worth {values['worth_bits_per_token']:.3f} bits per token, "
            f"{values['worth_bits_per_text']:.1f} bits per text\n"
            f"over {several(len(texts), 'text')}, {several(given.tokens, 'token')}"
        )
        device = self.model.head.weight.device.type
        how = [f"tokens:{self.config.tokens}", f"vocabulary:{self.codec.hash[:12]}", f"device:{device}"]
        return Report(values, [*how, "precision:float32", "shuffle-seed:0"], text)

    @property
    def specials(self) -> Specials:
        """What the vocabulary reserves."""
        words = self.codec.vocabulary
        if words.bos_id is None or words.eos_id is None:
            raise InputError("vocabulary", "has no <bos> or <eos>; choose another tokenizer")
        return Specials(words.pad_id or 0, words.bos_id, words.eos_id)

    @property
    def notes(self) -> tuple[str, ...]:
        """What should be known of the text that its vocabulary was made of."""
        return self.codec.notes

    @property
    def title(self) -> str:
        """What is trained, in one line."""
        config = self.config
        weights = sum(weight.numel() for weight in self.model.parameters())
        layers = f"{config.num_layers} x " if config.num_layers > 1 else ""
        return (
            f"{config.data}: from {self._source}, {layers}{config.cell} of {config.hidden_size}, "
            f"{weights / 1e6:.2f} M weights, vocabulary {len(self.codec.vocabulary):,} ({config.tokens})"
        )

    def begin(self, folder: ModelFolder) -> None:
        """Write all of the model but its weights."""
        folder.write_config(TASK, self.config.model_dump(mode="json"))
        self.codec.save(folder.path)
        if self.labels is not None:
            self.labels.save(folder)
        folder.write_json("generation_config.json", self.generation)

    def card(self, values: Mapping[str, Any]) -> str:
        """README.md of the model folder."""
        config, codec = self.config, self.codec
        best = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in values["best"].items())
        option = f'--label "{self.labels.names[0]}"' if self.labels is not None else "--vector 0.1,0.2,..."
        return f"""# Texts of {config.data} from {self._source}

{config.num_layers} x {config.hidden_size} {config.cell} cells that begin from the condition, made by
throughtime.

| | |
|---|---|
| data | {config.data}, split train |
| written from | {self._source} |
| tokens | {config.tokens}, vocabulary of {len(codec.vocabulary):,} (`{codec.hash[:12]}`) |
| weights | {values["parameters"]:,} |
| training | {trained_for(values)}, seed {config.seed}, {values["device"]} |
| validation | {best or "not measured"} |

    throughtime compose FOLDER {option} --num-return-sequences 3
    throughtime evaluate FOLDER --split test

In Python: `throughtime.load("FOLDER").compose([...])[0][0].text`. The settings are in config.json.
"""

    @property
    def _source(self) -> str:
        count, what = (self.width, "number") if self.labels is None else (len(self.labels), "label")
        return f"{count} {what}" if count == 1 else f"{count} {what}s"

    @property
    def _end_id(self) -> int:
        end = self.specials.eos_id
        assert end is not None
        return end

    def _marks(self) -> Constraint:
        """Never what stands for no text: all marks but the end."""
        words = self.codec.vocabulary
        marks = [words.unk_id, words.pad_id, words.bos_id, words.mask_id]
        return no_token(*{mark for mark in marks if mark is not None} - {self._end_id})
