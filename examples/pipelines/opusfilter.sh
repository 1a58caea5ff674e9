#!/usr/bin/env bash
# Keep the pairs of a corpus whose words have partners, and sort them, with OpusFilter. Tried with opusfilter 3.3.1.
# Without files, the corpus is the examples and the same again with the English sentences in another order.
#
#     bash examples/pipelines/opusfilter.sh [SOURCE TARGET]     # makes the folder filtered, with best.src and best.trg
set -euo pipefail
[ $# = 0 ] || [ $# = 2 ] || { echo "usage: opusfilter.sh [SOURCE TARGET]" >&2; exit 2; }
here=$(dirname "$0")
mkdir filtered
if [ $# = 2 ]; then
    cp "$1" filtered/all.src
    cp "$2" filtered/all.trg
else
    sed -n 's/ ||| .*//p' "$here/../de-en.txt" > filtered/good.src
    sed -n 's/.* ||| //p' "$here/../de-en.txt" > filtered/good.trg
    cat filtered/good.src filtered/good.src > filtered/all.src
    sed '1!G;h;$!d' filtered/good.trg | cat filtered/good.trg - > filtered/all.trg
fi
cat > filtered/opusfilter.yaml << 'END'
common: {output_directory: filtered}
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
    parameters: {inputs: [kept.src, kept.trg], outputs: [best.src, best.trg], values: scores.jsonl,
                 key: AgreementFilter, reverse: true}
END
PYTHONPATH="$here:${PYTHONPATH:-}" opusfilter --overwrite filtered/opusfilter.yaml
