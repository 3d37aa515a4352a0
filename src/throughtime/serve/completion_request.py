"""What a request for completions may ask for, in the words of OpenAI's API."""

from __future__ import annotations

from typing import Annotated, Any, NoReturn

from pydantic import Field

from throughtime.serve.cost import MAX_BEAMS, MAX_CHOICES, Cost, count_hypotheses
from throughtime.serve.requests import (
    Fields,
    Options,
    RefusalError,
    SearchRequest,
    Text,
    TextList,
    check_cost,
    check_limit,
    check_texts,
)
from throughtime.serve.writing import SamplingOptions

MAX_LIKELY, MAX_STOPS, STOP_LENGTH = 5, 4, 200
Ids = Annotated[list[int], Field(min_length=1, fail_fast=True)]


class StreamOptions(Fields):
    """What a stream reports at its end."""

    include_usage: bool = False


class CompletionRequest(SearchRequest):
    """Prompts to continue, and how. A prompt may be given as token ids of the vocabulary of the model.

    Texts are sampled unless `search` names another strategy, whose options are further fields.
    """

    model: Text
    prompt: Text | TextList | Ids | Annotated[list[Ids], Field(min_length=1, fail_fast=True)] = ""
    suffix: Text | None = None
    max_tokens: int | None = Field(None, ge=0)
    temperature: float | None = Field(None, ge=0, le=2)
    top_k: int | None = Field(None, ge=1)
    top_p: float | None = Field(None, gt=0, le=1)
    n: int | None = Field(None, ge=1, le=MAX_CHOICES)
    stop: Text | Annotated[list[Text], Field(max_length=MAX_STOPS)] | None = None
    seed: int | None = None
    num_beams: int | None = Field(None, ge=1, le=MAX_BEAMS)
    length_penalty: float | None = Field(None, ge=0, le=10)
    echo: bool | None = None
    logprobs: int | None = Field(None, ge=0, le=MAX_LIKELY)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    best_of: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[str, Any] | None = None
    user: Text | None = None  # OpenAI's name of the end user, which changes no answer

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts, one or several."""
        alone = isinstance(self.prompt, str) or isinstance(self.prompt[0], int)
        prompts: Any = [self.prompt] if alone else self.prompt
        return list(prompts)

    @property
    def stops(self) -> tuple[str, ...]:
        """The strings that end a text."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def choices(self) -> int:
        """Number of texts for each prompt."""
        return self.n or 1

    @property
    def tokens(self) -> int:
        """Maximum number of tokens of a text; the default is OpenAI's."""
        return 16 if self.max_tokens is None else self.max_tokens

    @property
    def cost(self) -> Cost:
        """What it asks for; an echoed prompt is answered with each of its texts."""
        read, longest = sum(map(len, self.prompts)), max(map(len, self.prompts))
        if self.search is not None:
            options = self.search_options(num_beams=self.num_beams, num_return_sequences=self.choices)
            rows = count_hypotheses(options)
            return Cost.of_writing(read, len(self.prompts), self.tokens, rows)
        texts, echoed = len(self.prompts) * self.choices, longest if self.echo else 0
        steps = Cost.of_writing(read, texts, self.tokens).steps
        return Cost(steps, Cost.of_writing(read, texts, echoed + self.tokens, likely=self.logprobs).answer)

    def sampling(self, number: int) -> SamplingOptions:
        """Return the options for the text of this number; each has its own random numbers."""
        given = self.model_dump(include={"temperature", "top_k", "top_p", "seed"}, exclude_none=True)
        limits: dict[str, Any] = {"max_tokens": self.tokens, "stop": self.stops, "likely": self.logprobs or 0}
        sentence, choice = divmod(number, self.choices)
        return SamplingOptions(**limits, **given, sentence=sentence, choice=choice)

    def check(self, options: Options) -> None:
        """Refuse requests that are too large, and options that would be silently ignored."""
        texts = [prompt for prompt in self.prompts if isinstance(prompt, str)]
        check_texts([*texts, self.suffix or "", *self.stops], options)
        ids = sum(len(prompt) for prompt in self.prompts if not isinstance(prompt, str))
        texts_to_write = len(self.prompts) * self.choices
        check_limit("the number of token ids", ids, options.max_characters, status=413, param="prompt")
        check_limit("the number of texts", texts_to_write, options.max_texts, status=413, param="prompt")
        check_limit("max_tokens", self.tokens, options.max_tokens, param="max_tokens")
        check_cost(self.cost, options)
        if self.tokens == 0 and not self.echo:
            refuse("max_tokens", "max_tokens 0 without echo leaves nothing to answer")
        if any(len(stop) > STOP_LENGTH for stop in self.stops):
            refuse("stop", f"a stop is longer than {STOP_LENGTH} characters")
        if self.stream and (self.logprobs is not None or self.suffix):
            name = "suffix" if self.suffix else "logprobs"
            refuse(name, f"{name} is not streamed; leave stream out")
        for name in ("stream", "logprobs", "suffix", "stop"):
            if self.search is not None and getattr(self, name) not in (None, False, "", []):
                refuse(name, f"{name} cannot be given together with search; leave one of them out")
        for name in ("num_beams", "length_penalty"):
            if self.search is None and getattr(self, name) is not None:
                refuse(name, f"{name} is an option of a search; give search too, such as beam")
        if "num_return_sequences" in (self.model_extra or {}):
            refuse("num_return_sequences", "num_return_sequences is called n here; give n")
        if self.best_of is not None and self.best_of != self.choices:
            refuse("best_of", "best_of is not supported; ask for n texts")
        for name in ("frequency_penalty", "presence_penalty", "logit_bias"):
            if getattr(self, name):
                refuse(name, f"{name} is not supported; leave it out")


def refuse(param: str, sentence: str) -> NoReturn:
    """Refuse a request for one of its fields."""
    raise RefusalError(400, sentence, param=param)
