"""What a client may ask of a language model in OpenAI's words, and what of it is refused."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from throughtime.serve.bodies import Text
from throughtime.serve.limits import check_texts
from throughtime.serve.options import Options
from throughtime.serve.refusals import RefusalError
from throughtime.serve.writing import Manner

MOST_LIKELY, MOST_CHOICES, MOST_STOPS = 5, 16, 4
STOP_LENGTH = 200
Ids = Annotated[list[int], Field(min_length=1)]


class StreamOptions(BaseModel):
    """What a stream tells at its end."""

    include_usage: bool = False


class CompletionRequest(BaseModel):
    """What to go on from, and how. A prompt may be given as token ids of the model's own vocabulary."""

    model: Text
    prompt: (
        Text | Annotated[list[Text], Field(min_length=1)] | Ids | Annotated[list[Ids], Field(min_length=1)]
    ) = ""
    suffix: Text | None = None
    max_tokens: int | None = Field(None, ge=0)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    n: int | None = Field(None, ge=1, le=MOST_CHOICES)
    stop: Text | Annotated[list[Text], Field(max_length=MOST_STOPS)] | None = None
    seed: int | None = None
    echo: bool | None = None
    logprobs: int | None = Field(None, ge=0, le=MOST_LIKELY)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    best_of: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[str, float] | None = None

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts, one or several."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if isinstance(self.prompt[0], int):
            return [self.prompt]
        return list(self.prompt)

    @property
    def stops(self) -> tuple[str, ...]:
        """What ends a text."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def choices(self) -> int:
        """How many texts for each prompt."""
        return self.n or 1

    @property
    def tokens(self) -> int:
        """The most tokens of a text; OpenAI's own default."""
        return 16 if self.max_tokens is None else self.max_tokens

    def manner(self, number: int) -> Manner:
        """How the text of this number is written: each has dice of its own."""
        return Manner(
            max_tokens=self.tokens,
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            stop=self.stops,
            likely=self.logprobs or 0,
            seed=None if self.seed is None else f"{self.seed}/{number}",
        )


def check(asked: CompletionRequest, options: Options) -> None:
    """Refuse what is too much, and what would be ignored in silence."""
    texts = [prompt for prompt in asked.prompts if isinstance(prompt, str)]
    check_texts([*texts, asked.suffix or "", *asked.stops], options)
    ids = sum(len(prompt) for prompt in asked.prompts if not isinstance(prompt, str))
    if ids > options.max_characters or len(asked.prompts) * asked.choices > options.max_texts:
        raise RefusalError(
            413, f"too much at once; at most {options.max_texts} texts are written", param="prompt"
        )
    if asked.tokens > options.max_tokens:
        raise RefusalError(
            400, f"max_tokens is {asked.tokens}, at most {options.max_tokens}", param="max_tokens"
        )
    if asked.tokens == 0 and not asked.echo:
        raise RefusalError(400, "max_tokens 0 without echo leaves nothing to answer", param="max_tokens")
    if any(len(stop) > STOP_LENGTH for stop in asked.stops):
        raise RefusalError(400, f"a stop is longer than {STOP_LENGTH} characters", param="stop")
    if asked.stream and (asked.logprobs is not None or asked.suffix):
        what = "suffix" if asked.suffix else "logprobs"
        raise RefusalError(400, f"{what} is not streamed; leave stream out", param=what)
    if asked.best_of is not None and asked.best_of != asked.choices:
        raise RefusalError(400, "best_of is not supported; ask for n texts", param="best_of")
    for name in ("frequency_penalty", "presence_penalty", "logit_bias"):
        if getattr(asked, name):
            raise RefusalError(400, f"{name} is not supported; leave it out", param=name)
