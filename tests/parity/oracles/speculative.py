"""Bookkeeping of drafted tokens (speculative decoding), from the operators' schemas: lists of integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


def rejected_tokens(drafted: int, valid: int) -> int:
    """Return how many of a request's drafts were rejected; one valid token is the target model's own."""
    return drafted + 1 - valid if drafted else 0


def next_token(sampled: Sequence[int], vocabulary: int, backup: int, *, discarded: bool) -> tuple[int, int]:
    """Return the last valid token of a request, else the backup; and how many are valid.

    -1 and what the vocabulary does not have is invalid, and so is everything of a discarded request.
    """
    valid = [] if discarded else [token for token in sampled if token != -1 and token < vocabulary]
    return (valid or [backup])[-1], len(valid)


def slot(position: int, blocks: Sequence[int], block_size: int) -> int:
    """Return where a position's key and value are cached; what lies behind the last block counts as in it."""
    return blocks[min(position // block_size, len(blocks) - 1)] * block_size + position % block_size


@dataclass
class Expanded:
    """A batch with room for the tokens to draft.

    Attributes:
        tokens: The accepted tokens of each request, the new one, slots to draft in, and padding for rejected ones.
        positions: Their positions; 0 for padding.
        rejected: Whether each is padding.
        masked: Whether each is a slot.
        new: The index of each request's new token and of its slots.
    """

    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    rejected: list[bool] = field(default_factory=list)
    masked: list[bool] = field(default_factory=list)
    new: list[int] = field(default_factory=list)

    def add(
        self, valid: Sequence[int], rejected: int, position: int, new: int, masks: Sequence[int], padding: int
    ) -> None:
        """Append a request.

        Args:
            valid: Its tokens that stay.
            rejected: How many tokens of padding stand for rejected ones.
            position: The first token's position.
            new: The new token.
            masks: The tokens that mark slots to draft in.
            padding: The token that is padding.
        """
        start = len(self.tokens)
        kept = [*valid, new, *masks]
        self.tokens += kept + [padding] * rejected
        self.positions += [*range(position, position + len(kept))] + [0] * rejected
        self.rejected += [False] * len(kept) + [True] * rejected
        self.masked += [False] * (len(kept) - len(masks)) + [True] * len(masks) + [False] * rejected
        self.new += range(start + len(valid), start + len(kept))
