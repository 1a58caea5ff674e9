"""Align a table on Ray: each actor loads the model once. Rows may change their order."""

import pyarrow as pa
import ray

from align import TableAligner

table = pa.table(
    {
        "id": [1, 2, 3],
        "de": ["Das Haus ist alt.", "", "Wir haben heute Zeit."],
        "en": ["The house is old.", "Nobody knows.", "We have time today."],
    }
)
ray.init(log_to_driver=False)  # address="auto" for a cluster that is there
linked = ray.data.from_arrow(table).map_batches(
    TableAligner,
    fn_constructor_args=["de-en"],
    fn_constructor_kwargs={"source": "de", "target": "en", "id": "id", "links": "pharaoh"},
    batch_format="pyarrow",
    batch_size=2000,
    compute=ray.data.ActorPoolStrategy(size=1),  # as many actors as there are cores to spare
)
for row in sorted(linked.take_all(), key=lambda row: row["id"]):
    print(row)
