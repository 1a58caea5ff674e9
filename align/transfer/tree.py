"""The tags of a translation as a tree, into which those that it lacks are inserted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise, product

from align.transfer.markup import PART, Insertion
from align.transfer.tags import PLACEHOLDER, Kind, Token, halves
from align.transfer.windows import Window


def text_of(tokens: Iterable[Token]) -> str:
    """Return the text between tags."""
    return "".join(token.text for token in tokens if token.kind == "text")


def is_code(token: Token) -> bool:
    """Check for half of a pair of native codes, each an element by itself in XML, or of placeholders around words."""
    return token.name.startswith("#") or (token.name == PLACEHOLDER and token.kind != "point")


def elements(tokens: Sequence[Token]) -> dict[int, int]:
    """Return the closing tag of each opening one, but no native codes."""
    return halves([token._replace(kind="point") if is_code(token) else token for token in tokens])


def partners(tokens: Sequence[Token]) -> dict[int, int]:
    """Return the closing token of each opening one; pairs of native codes may overlap others."""
    pairs = elements(tokens)
    opened: dict[str, list[int]] = defaultdict(list)
    for n, token in enumerate(tokens):
        if is_code(token) and token.kind == "open":
            opened[token.name].append(n)
        elif is_code(token) and opened[token.name]:
            pairs[opened[token.name].pop()] = n
    return pairs


def spare_annotations(source: Sequence[Token], target: Iterable[Token]) -> set[int]:
    """Return the annotations of a source that its translation need not have: it has its own, or they are matches."""
    theirs = {token.key.partition(" ")[2] for token in target if token.key[:1] == "@"}
    ours = {n: token.key.partition(" ")[2] for n, token in enumerate(source) if token.key[:1] == "@"}
    spare = {n for n, kind in ours.items() if kind in theirs or kind.rpartition(":")[2] == "match"}
    return spare | {m for n, m in partners(source).items() if n in spare}


def overlap(left: tuple[int, int], right: tuple[int, int]) -> bool:
    """Check whether each of two pairs has one half within the other pair."""
    first, second = sorted((left, right))
    return first[0] < second[0] < first[1] < second[1]


@dataclass(slots=True)
class Item:
    """A tag or a placeholder of the translation, or the text between two of them."""

    kind: Kind
    text: str
    number: int = -1  # of the source's token; a negative one if the source does not have it
    rank: int = -1  # position among the tags that are new; -1 of one that the translation has


@dataclass(eq=False, slots=True)
class _Node:
    """An element or a point in the text of a translation without tags."""

    start: int
    end: int
    tags: list[Item]  # both tags of an element, or what stands at a point
    parent: _Node | None = None
    children: list[_Node] = field(default_factory=list)

    @property
    def number(self) -> int:
        return self.tags[0].number

    @property
    def rank(self) -> int:
        return self.tags[0].rank


def _read(root: _Node, tags: Iterable[tuple[int, Item]]) -> list[_Node]:
    """Put tags, in order and with their offsets, into a tree; return all nodes, outer ones first."""
    nodes: list[_Node] = []
    node = root
    for at, tag in tags:
        if tag.kind == "close" and node.parent:
            node.end = at
            node.tags.append(tag)
            node = node.parent
            continue
        nodes.append(_Node(at, at, [tag], node))
        node.children.append(nodes[-1])
        node = nodes[-1] if tag.kind == "open" else node
    return nodes


def _ancestor(node: _Node | None, parent: _Node) -> _Node | None:
    """Return the child of a parent that a node is or is in; None if it is elsewhere."""
    while node and node.parent is not parent:
        node = node.parent
    return node


class Tree:
    """The elements and points of a translation: those that it has are fixed, new ones come between or around them.

    Args:
        text: the translation without tags.
        tokens: those of the source, with the closing ones by their opening ones.

    Attributes:
        moved: by number, the highest confidence of tags that came to other letters than their links say, so as not to
            cross others or to leave their parents.
    """

    def __init__(self, text: str, tokens: Sequence[Token], partners: Mapping[int, int]) -> None:
        self._text, self._tokens, self._partners = text, tokens, partners
        self._letters = [0, *accumulate(map(str.isalnum, text))]
        self._visible = [0, *accumulate(not character.isspace() for character in text)]
        self._starts = {m: n for n, m in partners.items()}
        self._elements = {n: m for n, m in partners.items() if not is_code(tokens[n])}
        self._root = _Node(0, len(text), [])
        self._nodes: defaultdict[int, list[_Node]] = defaultdict(list)
        self._ranks = 0
        self.moved: dict[int, float] = {}
        # for each source token the elements that it is in, the innermost last
        stack: list[int] = []
        ends = set(self._elements.values())
        self._around = around = list[tuple[int, ...]]()
        for n in range(len(tokens)):
            if n in ends:
                stack.pop()
            around.append(tuple(stack))
            if n in self._elements:
                stack.append(n)
        for n, m in partners.items():
            if n not in self._elements:  # a pair of codes may begin in one element and end in another
                around[n] = around[m] = tuple(e for e in around[n] if e in around[m])

    def add_own(self, tokens: Sequence[Token], matches: Mapping[int, int]) -> None:
        """Add the tags that the translation has, by their tokens and the source's tokens that these match."""
        pairs = elements(tokens)
        paired = {*pairs, *pairs.values()}
        tags, at = list[tuple[int, Item]](), 0
        for m, token in enumerate(tokens):
            if token.kind == "text":
                at += len(token.text)
            else:
                tags.append((at, Item(token.kind if m in paired else "point", token.text, matches.get(m, -1 - m))))
        self._enter(_read(self._root, tags))

    def add(self, insertions: Sequence[Insertion]) -> None:
        """Place the tags of a layer."""
        base, self._ranks = self._ranks, self._ranks + len(insertions)
        tags: list[tuple[int, Item]] = []
        for rank, (at, n, text) in enumerate(insertions, base):
            kind: Kind = "open" if n in self._elements else "point"
            tags.append((at, Item("close" if self._starts.get(n) in self._elements else kind, text, n, rank)))
        if not self._root.children:
            self._enter(_read(self._root, tags))
            return
        nodes = _read(_Node(0, len(self._text), []), tags)
        for node in sorted(nodes, key=lambda node: node.number):
            self._insert(node, base)
        for n in {self.first_half(node.number) for node in nodes} & self._partners.keys() - self._elements.keys():
            opening, closing = self._nodes.get(n), self._nodes.get(self._partners[n])
            content = text_of(self._tokens[n : self._partners[n]]).strip()
            if opening and closing and content and not self._text[opening[0].start : closing[0].start].strip():
                self.moved[n] = 0.0  # a pair of codes that encloses text in the source only

    def _enter(self, nodes: Iterable[_Node]) -> None:
        for node in nodes:
            self._nodes[node.number].append(node)

    def _insert(self, node: _Node, base: int) -> None:
        """Place a tag or an element of a layer, whose ranks begin at `base`: in its parent, in order, across none."""
        n, linked = node.number, (node.start, node.end)
        parent, low, high, content = self._find_room(node, base)
        start, end = node.start, node.end
        siblings = parent.children
        if content:
            edges = min(child.start for child in content), max(child.end for child in content)
            is_empty = self._visible[start] == self._visible[end]
            start, end = edges if is_empty else (min(start, edges[0]), max(end, edges[1]))
        if start < end:
            start, end = self._cross_none(siblings[low:high], content, (start, end), linked)
        # the siblings that come into it, or before which it comes
        partner = self._partners.get(n)
        first = low
        while first < high and (sibling := siblings[first]) not in content and sibling.end <= start:
            if sibling.start == start and (sibling.rank > node.rank or sibling.number == partner):
                break
            first += 1
        last = max((k + 1 for k in range(low, high) if siblings[k] in content), default=first)
        while last < high and siblings[last].start < end:
            last += 1
        if n in self._elements and not self._text[slice(*linked)].strip() and (start < end or first < last):
            for tag in node.tags:
                tag.text = tag.text.strip(" ")  # around tags, not between words
        node.start, node.end, node.parent, node.children = start, end, parent, siblings[first:last]
        for child in node.children:
            child.parent = node
        siblings[first:last] = [node]
        self._nodes[n].append(node)
        self._note_move(node, linked)

    def _find_room(self, node: _Node, base: int) -> tuple[_Node, int, int, set[_Node]]:
        """Move a node into its parent; return that, the range of children that it may enclose, and those it must."""
        n = node.number
        parent = self._root
        for element in reversed(self._around[n]):
            if outer := [other for other in self._nodes[element] if len(other.tags) == 2 and other.rank < node.rank]:
                parent = outer[-1]
                break
        if n not in self._elements:  # not before the other half of a pair of codes, or after it
            for half in self._nodes.get(self._starts.get(n, n), ()):
                node.start = node.end = max(node.start, half.start)
            for half in self._nodes.get(self._partners.get(n, n), ()):
                node.start = node.end = min(node.start, half.start)
        inside: list[_Node] = []  # what the translation has of its content
        if n in self._elements and not self._nodes[n]:
            for k in range(n + 1, self._elements[n]):
                inside += self._nodes.get(k, ()) if n in self._around[k] else ()
        while True:
            content = {top for inner in inside if (top := _ancestor(inner, parent))}
            extra = self._extra_around(parent.children, node, content)
            if extra is None:
                low, high, region = self._find_gap(node, parent, content, base)
                siblings = parent.children[low:high]
                content &= {*siblings}
                node.start, node.end = (min(max(region[0], at), region[1]) for at in (node.start, node.end))
                extra = self._extra_around(siblings, node, content)
            if extra is None:
                return parent, low, high, content
            parent = extra

    def _note_move(self, node: _Node, linked: Window) -> None:
        """Note a tag that came to other letters than those between the linked offsets."""
        bounds = node.start, node.end
        if node.number in self._elements:
            before, after = (self._text[slice(*window)].strip() for window in (linked, bounds))
            counts = [[self._letters[at] for at in window] for window in (linked, bounds)]
            if before and not after:
                self.moved[node.number] = 0.0
            elif counts[0] != counts[1] or before != after:
                self.moved[node.number] = PART
        elif self._text[min(node.start, linked[0]) : max(node.start, linked[0])].strip():
            self.moved[self.first_half(node.number)] = PART

    def _extra_around(self, nodes: Sequence[_Node], inner: _Node, content: set[_Node]) -> _Node | None:
        """Return the element that the source does not have and that a node is in, with all of its content."""
        start, end = inner.start, inner.end
        for node in nodes:
            bounds = node.start, node.end
            is_inside = bounds[0] <= start <= end <= bounds[1] and bounds != (start, end)
            is_extra = len(node.tags) == 2 and node.number < 0
            if is_extra and is_inside and (start < end or start not in bounds) and content <= {node}:
                return node
        return None

    def _find_gap(self, node: _Node, parent: _Node, content: set[_Node], base: int) -> tuple[int, int, Window]:
        """Return the children between a tag's neighbours in the source, with most of its characters, and their own."""
        n, children = node.number, parent.children
        places, are_behind = [-1], list[bool]()  # of those next to the tag
        for k, child in enumerate(children):
            if child not in content and (neighbour := self._neighbour(child, n)):
                places.append(k)
                are_behind.append(neighbour.rank > node.rank if neighbour.rank >= base else neighbour.number > n)
        places.append(len(children))
        # how many would be on the other side than in the source, for each gap
        disorder = accumulate((1 if is_behind else -1 for is_behind in are_behind), initial=are_behind.count(False))
        gaps: list[tuple[tuple[int, int, int, int], tuple[int, int, Window]]] = []
        for (before, after), wrong in zip(pairwise(places), disorder, strict=True):
            start = children[before].end if before >= 0 else parent.start
            end = children[after].start if after < len(children) else parent.end
            shared = self._visible[min(end, node.end)] - self._visible[max(start, node.start)]
            outside = len(content) - sum(child in content for child in children[before + 1 : after])
            gaps.append(((outside, -max(0, shared), max(0, -shared), wrong), (before + 1, after, (start, end))))
        return min(gaps, key=lambda gap: gap[0])[1]

    def _neighbour(self, node: _Node, n: int) -> _Node | None:
        """Return what of a node is next to a tag in the source, not in it: the node, or one in it; not a code."""
        waiting = [node]
        while waiting:
            node = waiting.pop()
            number = node.number
            if number < 0 or number == n or is_code(self._tokens[number]) or n in self._around[number]:
                waiting += reversed(node.children)
            else:
                return node
        return None

    def _cross_none(self, nodes: Sequence[_Node], content: set[_Node], bounds: Window, linked: Window) -> Window:
        """Return an element's characters so that others are in it or outside, as fewer letters change."""
        start, end = bounds
        starts, ends = [start], [end]
        for n, node in enumerate(nodes):
            if node.start < start < node.end:
                after = self._text[node.end : nodes[n + 1].start if n + 1 < len(nodes) else None]
                starts = [node.start, node.end + len(after) - len(after.lstrip())]
            if node.start < end < node.end:
                before = self._text[nodes[n - 1].end if n else 0 : node.start]
                ends = [node.end, node.start - len(before) + len(before.rstrip())]
        windows = [
            (first, last)
            for first, last in product(starts, ends)
            if first <= last and all(first <= node.start and node.end <= last for node in content)
        ]

        def changed(window: Window) -> int:
            return sum(abs(self._letters[a] - self._letters[b]) for a, b in zip(window, linked, strict=True))

        return min(windows, key=changed, default=(starts[0], ends[0]))

    def items(self) -> list[Item]:
        """Return all tags and the text between them."""
        items, at = list[Item](), 0
        waiting = [(node, 0) for node in reversed(self._root.children)]
        while waiting:
            node, k = waiting.pop()
            end = node.end if k else node.start
            if end > at:
                items.append(Item("text", self._text[at:end]))
                at = end
            items.append(node.tags[k])
            if k + 1 < len(node.tags):
                waiting += [(node, 1), *((child, 0) for child in reversed(node.children))]
        return [*items, Item("text", self._text[at:])]

    def first_half(self, n: int) -> int:
        """Return the number of the opening tag of an element or a pair of codes; a point's own number."""
        return self._starts.get(n, n)

    def touching(self, items: Sequence[Item]) -> set[int]:
        """Return the numbers of tags that touch an equal one, one of them new, with text between them in the source."""
        touching: set[int] = set()
        before: Item | None = None
        for item in items:
            if item.kind == "text":
                before = None if item.text.strip() else before
                continue
            if before and min(before.number, item.number) >= 0 and max(before.rank, item.rank) >= 0:
                first, last = sorted((before.number, item.number))
                ours = self._tokens[first], self._tokens[last]
                is_equal = before.kind == item.kind and ours[0].identity == ours[1].identity
                between = self._tokens[first + 1 : last]
                has_content = any(t.text.strip() if t.kind == "text" else t.kind == "point" for t in between)
                if is_equal and has_content:
                    touching |= {self.first_half(first), self.first_half(last)}
            before = item
        return touching

    def crossed(self, items: Sequence[Item], own: Mapping[int, int]) -> set[int]:
        """Return the numbers of pairs that cross another one or are in it, where they are not in the source.

        `own` are the pairs of the translation, by the numbers that they have if the source does not have them.
        """
        places = {item.number: k for k, item in enumerate(items) if item.kind != "text"}
        pairs = [
            ((places[n], places[m]), n)
            for n, m in (*self._partners.items(), *own.items())
            if n in places and m in places and places[n] < places[m]
        ]
        is_new = {n: any(items[k].rank >= 0 for k in pair) for pair, n in pairs}
        crossed: set[int] = set()
        opened: list[tuple[tuple[int, int], int]] = []
        for pair, n in sorted(pairs):
            opened = [(earlier, m) for earlier, m in opened if earlier[1] > pair[0]]
            for earlier, m in opened:
                if (is_new[n] or is_new[m]) and overlap(earlier, pair):
                    in_source = min(m, n) >= 0 and overlap((m, self._partners[m]), (n, self._partners[n]))
                    crossed |= set() if in_source else {n, m}
            opened.append((pair, n))
        stack: list[Item] = []  # elements that are in others than in the source
        for item in items:
            if item.kind == "close" and stack:
                stack.pop()
            for outer in stack if item.kind == "open" and item.number >= 0 else ():
                if outer.number >= 0 and outer.number not in self._around[item.number]:
                    crossed |= {outer.number, item.number}
            if item.kind == "open":
                stack.append(item)
        return crossed
