#!/usr/bin/env bash
# Choose attention for simultaneous translation: a list of heads, as AlignAtt reads it, and a copy of the model whose
# attention CTranslate2 returns. Tried with ctranslate2 4.8.5. MODEL is a folder of CTranslate2, whose text
# `extract-align models describe` knows; SOURCE and TARGET are 50 or more lines each.
#
#     bash examples/pipelines/streaming.sh MODEL SOURCE TARGET
set -euo pipefail
model=${1%/} source=$2 target=$3 copy=${1%/}-attention

mkdir "$copy"
trap 'rm -r "$copy"' EXIT
cp -r "$model/." "$copy"
extract-align models describe "$copy" -s "$source" -t "$target" --heads "$copy/heads.json" > "$copy/model.txt"
extract-align models describe "$copy" -s "$source" -t "$target" --heads "$copy/new.bin" >> "$copy/model.txt"
mv "$copy/new.bin" "$copy/model.bin"
trap - EXIT

python3 - "$copy" << 'END'
import json, sys
import ctranslate2

scores = json.load(open(sys.argv[1] + "/heads.json", encoding="utf-8"))
for head in scores["token_alignment_heads"][:3]:
    print(f"layer {head['layer']}, head {head['head']}, counted from 0: {head['ts']:.2f}")
translator = ctranslate2.Translator(sys.argv[1], device="cpu")
pieces = "▁das ▁haus ▁ist ▁alt ▁.".split()
(result,) = translator.translate_batch([pieces], return_attention=True)  # one by one: see docs/ctranslate2.md
for piece, attention in zip(result.hypotheses[0], result.attention[0]):
    print(piece, pieces[attention.index(max(attention))])
END
