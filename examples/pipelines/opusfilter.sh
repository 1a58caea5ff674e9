#!/usr/bin/env bash
# Keep the pairs of a corpus whose words have partners, and sort them, with OpusFilter. Tried with opusfilter 3.3.1.
# Without files, the corpus is the examples and the same again with the English sentences in another order.
#
#     bash examples/pipelines/opusfilter.sh [SOURCE TARGET]     # writes best.src, best.trg and scores.jsonl
set -euo pipefail
here=$(dirname "$0")

if [ $# = 2 ]; then
    cp "$1" all.src && cp "$2" all.trg
else
    grep -F ' ||| ' "$here/../de-en.txt" > pairs
    sed 's/ ||| .*//' pairs > good.src && sed 's/.* ||| //' pairs > good.trg
    cp good.src bad.src && tac good.trg > bad.trg
    for side in src trg; do cat "good.$side" "bad.$side" > "all.$side"; done
fi

cat > opusfilter.yaml << 'END'
common: {output_directory: .}
steps:
  - type: filter
    parameters:
      inputs: [all.src, all.trg]
      outputs: [kept.src, kept.trg]
      filters:
        - LengthFilter: {unit: word, max_length: 100}
        - AgreementFilter: {threshold: 0.2}
          module: opusfilter_score
        - WordAlignFilter: {src_threshold: 1.6, tgt_threshold: 1.6}  # -log 0.2; eflomal itself needs others
  - type: score
    parameters:
      inputs: [kept.src, kept.trg]
      output: scores.jsonl
      filters: [{AgreementFilter: {}, module: opusfilter_score}, {WordAlignFilter: {}}]
  - type: sort
    parameters:
      {inputs: [kept.src, kept.trg], outputs: [best.src, best.trg], values: scores.jsonl, key: AgreementFilter, reverse: true}
END
PYTHONPATH="$here:${PYTHONPATH:-}" opusfilter --overwrite opusfilter.yaml
