"""A deliberately naive reading of the paper: one sentence, every vector written out, plain loops.

Shares no code with the package but the recorder; slow, and easy to hold against the definitions.
"""

from __future__ import annotations

import torch

from align.core.types import CrossAttention, Pieces


def piece_scores(attention: CrossAttention, score: str, head: int | None) -> list[list[float]]:
    """Rows of scores of a batch of one, for all T+1 steps: `[T+1][S]`; head from 0, None for all."""
    weights, values, out_proj = attention.weights[0], attention.values[0], attention.out_proj
    heads, steps, length = weights.shape
    rows = []
    for t in range(steps):
        row = []
        for s in range(length):
            of_heads = range(heads) if head is None else [head]
            if score == "weight":
                row.append(sum(float(weights[h, t, s]) for h in of_heads) / len(of_heads))
            else:
                vector = torch.zeros(out_proj.shape[2], dtype=torch.float64)
                for h in of_heads:
                    transformed = values[h, s].double() @ out_proj[h].double()
                    vector = vector + float(weights[h, t, s]) * transformed
                row.append(float(vector.norm()))
        rows.append(row)
    return rows


def fast_piece_scores(attention: CrossAttention, score: str, head: int | None) -> list[list[float]]:
    """The same with the loops over steps and pieces left to torch, still with every vector in memory."""
    weights, values, out_proj = (x.double() for x in (attention.weights[0], attention.values[0], attention.out_proj))
    if head is not None:
        weights, values, out_proj = weights[head : head + 1], values[head : head + 1], out_proj[head : head + 1]
    if score == "weight":
        return weights.mean(0).tolist()
    transformed = torch.einsum("hsd,hdo->hso", values, out_proj)
    vectors = torch.einsum("hts,hso->tso", weights, transformed)
    norms: list[list[float]] = vectors.norm(dim=-1).tolist()
    return norms


def word_scores(rows: list[list[float]], pieces: Pieces, position: str, words: tuple[int, int]) -> list[list[float]]:
    """Scores of words `[J][I+1]`, out of those of pieces: sum over source pieces, mean over target pieces."""
    source_count, target_count = words
    scores = []
    for j in range(target_count):
        mine = [t for t, word in enumerate(pieces.target_words) if word == j]
        row = [0.0] * (source_count + 1)
        for t in mine:
            step = t + 1 if position == "input" else t
            for s, word in enumerate(pieces.source_words):
                row[source_count if word == -1 else word] += rows[step][s] / len(mine)
        scores.append(row)
    return scores


def links(scores: list[list[float]]) -> tuple[set[tuple[int, int]], float]:
    """Links by argmax, `</s>` as NULL, and the smallest lead of a winner over the next, relative to it."""
    found = set()
    lead = 1.0
    for j, row in enumerate(scores):
        ranked = sorted(range(len(row)), key=lambda i: -row[i])
        best, second = ranked[0], ranked[1]
        if row[best] > 0:
            lead = min(lead, (row[best] - row[second]) / row[best])
            if best != len(row) - 1:
                found.add((best, j))
    return found, lead


def shares(scores: list[list[float]], null: str) -> list[list[float]]:
    """Shares `[J][I]` of rows of word scores `[J][I+1]`, of the row with `</s>` for "eos" and without it otherwise."""
    found = []
    for row in scores:
        usable = [max(score, 0.0) for score in (row if null == "eos" else row[:-1])]
        total = sum(usable)
        found.append([max(score, 0.0) / total if total > 0 else 0.0 for score in row[:-1]])
    return found


def sharpen(scores: list[list[float]], null: str, wanted: float = 0.5) -> list[list[float]]:
    """Shares `[J][I]` of rows raised to the power, from 1/2 to 4, that gives their largest the mean that is wanted."""

    def raised(power: float) -> list[list[float]]:
        rows = [[max(score, 0.0) for score in row] for row in scores]
        tops = [max(row if null == "eos" else row[:-1]) or 1.0 for row in rows]
        return [[(score / top) ** power for score in row] for row, top in zip(rows, tops, strict=True)]

    def sharpness(power: float) -> float:
        rows = [row if null == "eos" else row[:-1] for row in raised(power)]
        largest = [max(row) / sum(row) for row in rows if sum(row)]
        return sum(largest) / len(largest) if largest else wanted

    low, high = 0.5, 4.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sharpness(middle) < wanted else (low, middle)
    return shares(raised(low), null)


def soft_scores(forward: list[list[float]], reverse: list[list[float]] | None = None) -> list[list[float]]:
    """Soft scores `[J][I]`: `forward` is `[J][I]`, `reverse` is `[I][J]`."""
    product = [
        [value * (value if reverse is None else reverse[i][j]) for i, value in enumerate(row)]
        for j, row in enumerate(forward)
    ]
    alone = claims(product)

    def neighbours(j: int, i: int) -> float:
        around = [(b, a) for b in (j - 1, j, j + 1) for a in (i - 1, i, i + 1) if (b, a) != (j, i)]
        return sum(alone[b][a] for b, a in around if 0 <= b < len(product) and 0 <= a < len(product[0]))

    return claims(
        [[value * (0.1 + neighbours(j, i)) ** 0.5 for i, value in enumerate(row)] for j, row in enumerate(product)]
    )


def claims(product: list[list[float]]) -> list[list[float]]:
    """Each product over the root of what its row and its column hold."""
    scores = []
    for row in product:
        scores.append([])
        for i, value in enumerate(row):
            both = (sum(row) * sum(other[i] for other in product)) ** 0.5
            scores[-1].append(value / both if both > 0 else 0.0)
    return scores


def agreement(forward: list[list[float]], reverse: list[list[float]] | None = None) -> tuple[float, float]:
    """Agreement on target and on source words: `forward` is `[J][I]`, `reverse` is `[I][J]`, or made of `forward`."""
    targets, sources = range(len(forward)), range(len(forward[0]))
    if reverse is None:
        squares = [[forward[j][i] ** 2 for j in targets] for i in sources]
        reverse = [[square / sum(row) if sum(row) > 0 else 0.0 for square in row] for row in squares]
    of_targets = [sum(forward[j][i] * reverse[i][j] for i in sources) for j in targets]
    of_sources = [sum(forward[j][i] * reverse[i][j] for j in targets) for i in sources]
    return geometric_mean(of_targets), geometric_mean(of_sources)


def geometric_mean(chances: list[float]) -> float:
    """Root of the product of chances, of which none counts less than 0.001."""
    product = 1.0
    for chance in chances:
        product *= max(chance, 0.001) ** (1 / len(chances))
    return product
