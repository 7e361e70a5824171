#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The demo's final sentence follows from its figures: those of the embedded pair (experiments/pair/bits.csv), and those
# of two models by hand; other figures are refused.
# usage: demo_test.sh ROOT
set -euo pipefail
cd "${1:?usage: demo_test.sh ROOT}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "demo_test: $*" >&2; exit 1; }

cat >"$work/outliers.csv" <<'END'
model,site,layer,head,map,from,count,absmax
novels-standard,attn_logits,,,,0,9,10.0
novels-standard,attn_logits,0,,,0,9,99.0
novels-standard,layer_out,,,,0,9,80.0
novels-standard,layer_out,,,,1,8,20.0
novels-differential,attn_logits,,,,0,9,12.5
novels-differential,attn_logits,,,1,0,9,1.0
novels-differential,layer_out,,,,0,9,60.0
novels-differential,attn_logits,,,,1,9,1.0
novels-differential,layer_out,,,,1,8,30.0
END
said=$(tools/seen.sh experiments/pair/bits.csv "$work/outliers.csv" | tr -s ' \n' ' ')
for part in 'With 4 bits for attn_logits, perplexity changes by +0.5 % (novels-standard)' \
  ' and +1.2 % (novels-differential) with one scale per row' \
  'and by +5.8 % (novels-standard) and +11.2 % (novels-differential) with one scale per tensor' \
  'largest magnitude of an attention logit of novels-differential is 1.25 times that of novels-standard' \
  'of a hidden state 0.75 times, and without the first token 1.50 times.'; do
  case $said in *"$part"*) ;; *) die "got '$said', expected '$part' in it" ;; esac
done
head -n 3 "$work/outliers.csv" >"$work/one.csv"
! tools/seen.sh experiments/pair/bits.csv "$work/one.csv" >/dev/null 2>&1 || die 'a sentence about one model'
