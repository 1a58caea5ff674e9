"""Start new processes (any system): each loads the model once."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from torch import set_num_threads

from align import load

SOURCES = ["Das Haus ist alt.", "Wir haben heute Zeit.", "Der Zug fährt um acht Uhr ab."]
TARGETS = ["The house is old.", "We have time today.", "The train leaves at eight o'clock."]

if __name__ == "__main__":  # a new process imports this file
    aligner = load().fixed()
    with ProcessPoolExecutor(2, get_context("spawn"), set_num_threads, (1,)) as processes:
        for alignment in processes.map(aligner.align, SOURCES, TARGETS, chunksize=100):
            print(alignment)
