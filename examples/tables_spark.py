"""Align a data frame on Spark: each Python worker loads the model once."""

from collections.abc import Iterable, Iterator

from pyarrow import RecordBatch
from pyspark.sql import SparkSession

from align import TableAligner

PAIRS = [
    (1, "Das Haus ist alt.", "The house is old."),
    (2, None, "Nobody knows."),
    (3, "Wir haben heute Zeit.", "We have time today."),
]
aligner = TableAligner("de-en", source="de", target="en", id="id")


def align(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    """Align a partition, a batch at a time."""
    for batch in batches:
        yield from aligner(batch).to_batches()


spark = SparkSession.builder.master("local[2]").getOrCreate()
pairs = spark.createDataFrame(PAIRS, "id long, de string, en string")
LINKS = "array<struct<source: int, target: int, score: float>>"
linked = pairs.mapInArrow(align, f"id long, links {LINKS}, status string")
links = "transform(links, l -> l.source || '-' || l.target) AS links"
for row in linked.selectExpr("id", links, "status").collect():
    print(row)
