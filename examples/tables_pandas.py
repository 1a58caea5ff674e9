"""Add a column of links to a data frame."""

import pandas as pd
import pyarrow as pa

from align import align_table, load

frame = pd.DataFrame(
    {
        "de": ["Das Haus ist alt.", None, "Wir haben heute Zeit."],
        "en": ["The house is old.", "Nobody knows.", "We have time today."],
    },
    index=[10, 11, 12],
)
table = pa.Table.from_pandas(frame)
linked = align_table(table, load(), source="de", target="en", links="pharaoh")
frame[["links", "status"]] = linked.to_pandas().set_index(frame.index)
print(frame[["links", "status", "de"]].to_string())
