"""Align verses with SIL's machine.py, and put the markers of a USFM text into its translation.

Tried with sil-machine 1.9.2. TRANSLATION has a line for each verse, none for headings; without files: two verses.
    python examples/pipelines/sil_machine.py [SOURCE.usfm TRANSLATION]
"""

import sys
from pathlib import Path

from machine import corpora as mc
from machine.tokenization import LatinWordTokenizer
from machine.translation import WordAlignmentMatrix, word_align_corpus

from align.compat.machine import ExtractAligner

SOURCE = r"""\id MAT
\c 1
\p
\v 1 Das Haus, das ich gestern sah,
\q war \bd groß\bd* und alt.
\v 2 Der \bd Zug\bd* fährt um acht Uhr ab.
"""
TRANSLATION = "The house that I saw yesterday was big and old.\nThe train leaves at eight o'clock.\n"
KEEP = mc.UpdateUsfmMarkerBehavior.PRESERVE

usfm, lines = [Path(name).read_text("utf-8-sig") for name in sys.argv[1:]] or (SOURCE, TRANSLATION)
book = usfm.split()[1]
source = mc.UsfmMemoryText(mc.UsfmStylesheet("usfm.sty"), "utf-8-sig", book, usfm)
rows = [mc.TextRow(book, row.ref, [line]) for row, line in zip(source, lines.rstrip("\n").split("\n"), strict=True)]
verses = mc.DictionaryTextCorpus(source).align_rows(mc.DictionaryTextCorpus(mc.MemoryText(book, rows)))
aligned, updates = word_align_corpus(verses.tokenize(LatinWordTokenizer()), ExtractAligner()), []
for row, translation in zip(aligned, rows, strict=True):
    tokens = {"source_tokens": row.source_segment, "translation_tokens": row.target_segment}
    links = {"alignment": WordAlignmentMatrix.from_parallel_text_row(row)}
    info = {**tokens, **links, "paragraph_behavior": KEEP, "style_behavior": KEEP}
    updates.append(mc.UpdateUsfmRow(row.refs, translation.text, {"alignment_info": info}))
new, place = mc.UpdateUsfmTextBehavior.PREFER_NEW, mc.PlaceMarkersUsfmUpdateBlockHandler()
handler = mc.UpdateUsfmParserHandler(updates, None, new, style_behavior=KEEP, update_block_handlers=[place])
mc.parse_usfm(usfm, handler)
print(handler.get_usfm().replace("\r\n", "\n"), end="")
