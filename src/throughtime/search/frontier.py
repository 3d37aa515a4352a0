"""The prefixes that exact search has yet to continue."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from throughtime.search.generate import State, select

ROOT = -1  # the parent of all prefixes


class Prefixes(NamedTuple):
    """Prefixes from the top of the stacks, to be continued in one step of the model."""

    sentence: Tensor  # [rows], rising
    token: Tensor  # [rows], the newest of each prefix
    log_prob: Tensor  # [rows]
    depth: Tensor  # [rows], number of tokens
    node: Tensor  # [rows], its number; `Frontier.tokens` returns its tokens
    state: State


class Frontier:
    """The prefixes that exact search has yet to continue: a stack for each sentence, all in a few tensors.

    Of the prefixes that were put in together, the likeliest comes out first. A prefix waits as (slot, token,
    log_prob): the token will be fed to the state in the slot. The continuations of one prefix share a slot,
    which is free again when none of them waits, so that few states are kept: the depth of the search times
    the number of prefixes taken at once. A stack that grows beyond twice the budget of expansions forgets its
    least likely prefixes. This loses nothing: a search that needs them would first have to take all likelier
    ones, which are more than the budget.
    """

    def __init__(self, last: Tensor, state: State, budget: int) -> None:
        sentences, device, self.budget = len(last), last.device, budget
        each = torch.arange(sentences, device=device)
        self.height = torch.ones_like(each)  # [S], number of waiting prefixes
        self.expansions = torch.zeros_like(each)  # [S], number of prefixes taken so far
        self._forgotten = torch.full((sentences,), -torch.inf, dtype=torch.float64, device=device)
        self._slot, self._token = each[:, None].clone(), last[:, None].clone()  # [S, capacity]
        self._log_prob = torch.zeros(sentences, 1, dtype=torch.float64, device=device)
        self._states = tuple(tensor.clone() for tensor in state)  # each [slots, ...]
        self._waiting = torch.ones_like(each)  # [slots]
        self._slot_node = torch.full_like(each, ROOT)
        self._slot_depth = torch.full_like(each, -1)  # the prompt's last token has depth 0
        self._nodes = 0
        self._parent, self._token_of = each.new_empty(0), each.new_empty(0)  # [nodes or more]

    def take(self, most: int) -> Prefixes | None:
        """Take up to `most` prefixes of each sentence within its budget; None if there are none."""
        count = torch.minimum(self.height, (self.budget - self.expansions).clamp(max=most))
        widest = int(count.max())
        if widest == 0:
            return None
        down = torch.arange(widest, device=count.device)
        wanted = down < count[:, None]  # [S, widest]
        at = (self.height[:, None] - 1 - down).clamp(min=0)
        slot, token, log_prob = (x.gather(1, at)[wanted] for x in (self._slot, self._token, self._log_prob))
        self.height -= count
        self.expansions += count
        self._waiting.index_add_(0, slot, torch.full_like(slot, -1))
        node = self._remember(self._slot_node[slot], token)
        sentence = wanted.nonzero()[:, 0]
        return Prefixes(
            sentence, token, log_prob, self._slot_depth[slot] + 1, node, select(self._states, slot)
        )

    def put(self, taken: Prefixes, state: State, row: Tensor, token: Tensor, log_prob: Tensor) -> None:
        """Add continuations: row `row[i]` of `taken`, now in `state`, with `token[i]`; `row` is sorted."""
        row, token, log_prob = self._within_budget(taken, row, token, log_prob)
        if not len(row):
            return
        parent, which, children = torch.unique_consecutive(row, return_inverse=True, return_counts=True)
        slots = self._free(len(parent))
        for kept, new in zip(self._states, state, strict=True):
            kept.index_copy_(0, slots, new.index_select(0, parent).to(kept.dtype))
        self._waiting[slots] = children
        self._slot_node[slots], self._slot_depth[slots] = taken.node[parent], taken.depth[parent]

        sentence = taken.sentence[row]
        order, place = order_by_sentence(sentence, log_prob)
        sentence = sentence[order]
        at = self.height[sentence] + place
        self._grow(int(at.max()) + 1)
        self._slot[sentence, at] = slots[which[order]]
        self._token[sentence, at], self._log_prob[sentence, at] = token[order], log_prob[order]
        self.height += torch.bincount(sentence, minlength=len(self.height))

    def prune(self, bound: Tensor) -> None:
        """Drop prefixes that are not likelier than the bound of their sentence. [S]"""
        self._keep(self._log_prob > bound[:, None])

    def decided(self, bound: Tensor) -> Tensor:
        """Whether no waiting or forgotten prefix is likelier than the bound. [S]"""
        return (self.height == 0) & (self._forgotten <= bound)

    def tokens(self, node: int) -> tuple[int, ...]:
        """The tokens of a node's prefix."""
        found = []
        while (parent := int(self._parent[node])) != ROOT:
            found.append(int(self._token_of[node]))
            node = parent
        return tuple(found[::-1])

    def prefixes(self, nodes: Tensor, depth: int) -> Tensor:
        """The prefixes of several nodes of the same depth. [rows, depth]"""
        found = [nodes.new_empty(len(nodes), 0)]
        for _ in range(depth):
            found.append(self._token_of[nodes][:, None])
            nodes = self._parent[nodes]
        return torch.cat(found[::-1], dim=1)

    def _within_budget(
        self, taken: Prefixes, row: Tensor, token: Tensor, log_prob: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Where a stack would exceed twice the budget, keep only its likeliest prefixes, a budget of them."""
        sentence = taken.sentence[row]
        full = self.height + torch.bincount(sentence, minlength=len(self.height)) > 2 * self.budget
        if not bool(full.any()):
            return row, token, log_prob
        within = torch.arange(self._slot.shape[1], device=row.device) < self.height[:, None]
        old = int(self.height.sum())
        sentences = torch.cat([within.nonzero()[:, 0], sentence])
        log_probs = torch.cat([self._log_prob[within], log_prob])
        order, place = order_by_sentence(sentences, log_probs)
        too_many = (torch.bincount(sentences, minlength=len(full)) - self.budget).masked_fill(~full, 0)
        stays = torch.empty_like(sentences, dtype=torch.bool)
        stays[order] = place >= too_many[sentences[order]]
        self._forgotten.scatter_reduce_(0, sentences[~stays], log_probs[~stays], "amax")
        self._keep(within.masked_scatter(within, stays[:old]))
        kept = stays[old:]
        return row[kept], token[kept], log_prob[kept]

    def _keep(self, wanted: Tensor) -> None:
        """Keep the prefixes that are wanted and close the gaps. [S, capacity]"""
        within = torch.arange(wanted.shape[1], device=wanted.device) < self.height[:, None]
        stays = within & wanted
        dropped = self._slot[within & ~stays]
        self._waiting.index_add_(0, dropped, torch.full_like(dropped, -1))
        sentence, at = stays.nonzero().unbind(1)
        lower = stays.cumsum(1)[sentence, at] - 1
        for stack in (self._slot, self._token, self._log_prob):
            stack[sentence, lower] = stack[sentence, at]
        self.height = stays.sum(1)

    def _remember(self, parent: Tensor, token: Tensor) -> Tensor:
        first, self._nodes = self._nodes, self._nodes + len(parent)
        missing = self._nodes - len(self._parent)
        if missing > 0:
            more = parent.new_empty(max(missing, len(self._parent)))
            self._parent, self._token_of = (torch.cat([x, more]) for x in (self._parent, self._token_of))
        self._parent[first : self._nodes], self._token_of[first : self._nodes] = parent, token
        return torch.arange(first, self._nodes, device=parent.device)

    def _free(self, wanted: int) -> Tensor:
        free = (self._waiting == 0).nonzero().flatten()
        if len(free) < wanted:
            more = max(wanted - len(free), len(self._waiting))
            self._states = tuple(torch.cat([x, x.new_empty(more, *x.shape[1:])]) for x in self._states)
            self._waiting, self._slot_node, self._slot_depth = (
                torch.cat([x, x.new_zeros(more)]) for x in (self._waiting, self._slot_node, self._slot_depth)
            )
            free = (self._waiting == 0).nonzero().flatten()
        return free[:wanted]

    def _grow(self, capacity: int) -> None:
        have = self._slot.shape[1]
        if capacity > have:
            more = max(capacity, 2 * have) - have
            self._slot, self._token, self._log_prob = (
                torch.cat([x, x.new_zeros(len(x), more)], dim=1)
                for x in (self._slot, self._token, self._log_prob)
            )


def order_by_sentence(sentence: Tensor, log_prob: Tensor) -> tuple[Tensor, Tensor]:
    """The order by sentence and rising log-probability, and the place of each row in its sentence. [rows]"""
    order = log_prob.sort(stable=True).indices
    order = order[sentence[order].sort(stable=True).indices]
    grouped = sentence[order]
    first = torch.searchsorted(grouped, grouped)
    return order, torch.arange(len(order), device=order.device) - first
