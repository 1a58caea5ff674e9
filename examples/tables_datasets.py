"""Add a column of links to a dataset."""

from datasets import Dataset

from align import TableAligner

pairs = Dataset.from_dict(
    {
        "id": [1, 2, 3],
        "de": ["Das Haus ist alt.", "", "Wir haben heute Zeit."],
        "en": ["The house is old.", "Nobody knows.", "We have time today."],
    }
)
aligner = TableAligner("de-en", source="de", target="en", id="id", links="pharaoh")
linked = pairs.with_format("arrow").map(aligner, batched=True)
for row in linked.with_format(None):
    print(row)
