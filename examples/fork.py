"""Fork processes after loading (Linux): they share the model, and each has one CPU thread."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from align import load

SOURCES = ["Das Haus ist alt.", "Wir haben heute Zeit.", "Der Zug fährt um acht Uhr ab."]
TARGETS = ["The house is old.", "We have time today.", "The train leaves at eight o'clock."]

aligner = load(device="cpu").fixed()
with ProcessPoolExecutor(2, get_context("fork")) as processes:
    for alignment in processes.map(aligner.align, SOURCES, TARGETS, chunksize=100):
        print(alignment)
