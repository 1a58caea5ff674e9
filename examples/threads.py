"""Share an aligner between threads."""

from concurrent.futures import ThreadPoolExecutor

from align import load

SOURCES = ["Das Haus ist alt.", "Wir haben heute Zeit.", "Der Zug fährt um acht Uhr ab."]
TARGETS = ["The house is old.", "We have time today.", "The train leaves at eight o'clock."]

aligner = load().fixed()
with ThreadPoolExecutor(max_workers=4) as threads:
    for alignment in threads.map(aligner.align, SOURCES, TARGETS):
        print(alignment)
