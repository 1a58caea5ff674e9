"""List words that translate each other more than once, with count and share of the source word.

Run it with `extract-align -f jsonl FILE | python examples/lexicon.py`.
"""

import json
import signal
import sys
from collections import Counter

signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it quietly
times: Counter[tuple[str, str]] = Counter()
for line in sys.stdin:
    pair = json.loads(line)
    for i, j in pair["links"]:
        times[pair["source"][i].strip(".,!?„“"), pair["target"][j].strip('.,!?"')] += 1

of_source = Counter(source for source, _ in times.elements())
for (source, target), count in times.most_common():
    if count > 1:
        print(f"{count}\t{count / of_source[source]:.2f}\t{source}\t{target}")
