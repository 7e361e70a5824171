#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A fixed list of commands whose figures a change of structure must not change: statistics, sweeps, evaluations
# (simulated and executed), every method of quantization and dumps, on the embedded pair and the golden checkpoints.
# Files, JSON and tables go into OUT; compare two runs with `diff -r`. Takes about two minutes on two cores.
#
# usage: commands.sh TARE OUT     TARE: the program; OUT: a new folder
set -euo pipefail
tare=$(realpath "${1:?usage: commands.sh TARE OUT}") out=$(realpath -m "${2:?usage: commands.sh TARE OUT}")
cd "$(dirname "$0")/../.."
mkdir "$out"
pair=experiments/pair golden=tests/data/golden
text=$pair/heldout.txt
tail -c 60000 $text >"$out/calibration.txt"
tasks=perplexity=$text,choice=$pair/needles-4.jsonl,choice=$pair/continuations.jsonl

# run NAME ARGUMENT...: the command; what it prints is kept beside what it writes.
run() {
  local name=$1
  shift
  "$tare" "$@" >"$out/$name.txt" 2>"$out/$name.err" || \
    { echo "commands: $name failed:" >&2; cat "$out/$name.err" >&2; exit 1; }
  [ -s "$out/$name.err" ] || rm "$out/$name.err"
}

# Statistics where a rule has static scales, a text where a method looks at one: options that change nothing are
# refused.
statistics() { case $1 in *+static*) echo "--stats $2" ;; esac; }
calibration() { case $1 in cayley* | *gptq* | *gptaq* | qronos | *quantease* | smoothquant* | awq* | *round*) \
  echo "--calibrate $out/calibration.txt" ;; esac; }

for model in standard differential; do
  m=$pair/novels-$model
  run inspect-$model inspect $m --json "$out/inspect-$model.json"
  run stats-$model stats $m --input $text --tokens 2044 --out "$out/stats-$model.h5" --json "$out/stats-$model.json" \
    --formats int8/row,int6/row,int4/tensor,int4/head,int6/channel \
    --calibrate int8,int6,int4
  run show-$model stats show "$out/stats-$model.h5" --site attn_logits --measures --json "$out/show-$model.json" \
    --csv "$out/show-$model.csv"
  run marked-$model stats $m --input $pair/needles-4.jsonl --limit 20 --sites probs,v --out "$out/marked-$model.h5"
  run eval-$model eval $m --tasks $tasks --tokens 2044 --limit 8 --json "$out/eval-$model.json" \
    --records "$out/records-$model.jsonl"
  i=0
  for plan in attn_logits=int4/tensor attn_logits=int4/head,attn_logits[l0]=f32 attn_logits=int6/row+p99.9 \
    weights=int4/group16,linear_in=int8/token q=int4/token+smooth,k=int4/token+smooth,v=int4/channel+mse \
    q=int8/head,k=int8/tensor,v=int6/block64.channel,probs=u6/row \
    attn_out=int8/group16,layer_out=int8/token,embed=int8/tensor,lm_head.in=int8/token \
    attn_logits=int8/tensor+static,linear_in=int8/tensor+static int6; do
    i=$((i + 1))
    run simulated-$model-$i eval $m --plan "$plan" $(statistics "$plan" "$out/stats-$model.h5") --tasks $tasks \
      --tokens 1022 --limit 4 --json "$out/simulated-$model-$i.json"
  done
  i=0
  for plan in int8 int6 int4 weights=int4/group16,linear_in=int8/token \
    'weights=int8/channel,linear_in=int8/tensor+static,lm_head.w=int8/channel,lm_head.in=int8/token' \
    q=int8/token,k=int8/token,probs=u8/block64,v=int8/block64.channel \
    'q=int4/token+smooth,k=int4/token+smooth,probs=u8/block64,v=int8/block64.channel+smooth' \
    q=int8/token,k=int8/token,attn_logits=int6/row,probs=u8/block64,v=int8/block64.channel; do
    i=$((i + 1))
    run executed-$model-$i eval $m --plan "$plan" --executed $(statistics "$plan" "$out/stats-$model.h5") \
      --tasks perplexity=$text --tokens 2044 --json "$out/executed-$model-$i.json"
  done
  run dump-$model dump $m --input $text --tokens 64 --sites logits,embed,layer_out,final_norm,attn_logits \
    --out "$out/dump-$model.h5"
  i=0
  for method in rtn hadamard+rtn hadamard:3+rtn smoothquant:0.5+rtn smoothquant+gptq svdquant:16 gptq gptaq \
    gptaq+quantease qronos rtn+quantease awq awq+gptq signround:50 autoround:20 cayley:5+gptq cayley:5+rtn; do
    i=$((i + 1))
    run quantize-$model-$i quantize $m --plan weights=int4/channel --method $method $(calibration $method) \
      --out "$out/quantize-$model-$i.h5" --json "$out/quantize-$model-$i.json"
    run quantized-$model-$i eval "$out/quantize-$model-$i.h5" --tasks perplexity=$text --tokens 1022 \
      --json "$out/quantized-$model-$i.json"
  done
  run static-$model quantize $m --plan weights=int6/group16,linear_in=int8/tensor+static \
    --stats "$out/stats-$model.h5" --out "$out/static-$model.h5"
  run executed-static-$model eval "$out/static-$model.h5" --plan linear_in=int8/tensor+static --executed \
    --tasks perplexity=$text --tokens 1022 --json "$out/executed-static-$model.json"
  run export-$model quantize $m --plan weights=int8/channel --format safetensors --out "$out/export-$model"
done

d=$pair/novels-differential
for plan in 'difference=u4/block64' 'difference=int8/block64' 'difference=int6/row'; do
  run simulated-"${plan%%/*}" eval $d --plan "q=int8/token,k=int8/token,$plan,v=int8/block64.channel" --tasks $tasks \
    --tokens 1022 --limit 4 --json "$out/simulated-${plan%%/*}.json"
done
for plan in difference=u4/block64 difference=u8/block64 difference=int8/block128; do
  run executed-"${plan%%/*}" eval $d --plan "q=int8/token,k=int8/token,$plan,v=int8/${plan#*/}.channel" --executed \
    --tasks perplexity=$text --tokens 2044 --json "$out/executed-${plan%%/*}.json"
done
run dump-executed dump $d --plan 'q=int8/token,k=int8/token,difference=u8/block64,v=int8/block64.channel' --executed \
  --input $text --tokens 64 --sites logits,layer_out --out "$out/dump-executed.h5"
run diff stats diff "$out/stats-standard.h5" "$out/stats-differential.h5" --draws 200 --json "$out/diff.json"
run shard0 stats $d --input $text --tokens 4088 --shard 0/2 --out "$out/shard0.h5"
run shard1 stats $d --input $text --tokens 4088 --shard 1/2 --out "$out/shard1.h5"
run merge stats merge "$out/shard0.h5" "$out/shard1.h5" --out "$out/merged.h5"
run table stats $pair/novels-standard $d --input $text --tokens 1022 --json "$out/table.json" --csv "$out/table.csv"
run sweep sweep $pair/novels-standard $d --bits 16,8,6,4 --granularity row,tensor --tasks $tasks --tokens 1022 \
  --limit 4 --out "$out/sweep" --json "$out/sweep.json"
run sweep-executed sweep $d --site q,k --base 'probs=u8/block64,v=int8/block64.channel' --bits 16,8,4 \
  --granularity token --executed --tasks perplexity=$text --tokens 1022 --out "$out/sweep-executed" \
  --json "$out/sweep-executed.json"

for model in llama-gqa llama-mha llama-old-config diffllama-gqa diffllama-mha; do
  m=$golden/$model ids=$golden/$model/expected.safetensors
  run inspect-$model inspect $m --json "$out/inspect-$model.json"
  run dump-$model dump $m --input $ids --sites logits,embed,layer_out,final_norm,attn_logits --out "$out/dump-$model.h5"
  run dump6-$model dump $m --input $ids --plan attn_logits=int6/row --sites logits,attn_logits \
    --out "$out/dump6-$model.h5"
  run stats-$model stats $m --input $ids --out "$out/stats-$model.h5" --formats int8/row --json "$out/stats-$model.json"
  run quantize-$model quantize $m --plan weights=int8/channel --out "$out/quantize-$model.h5"
  run eval-$model eval $m --plan int8 --executed --tasks perplexity=$ids --json "$out/eval-$model.json"
done

for model in standard differential; do
  m=$pair/novels-$model
  i=0
  for cache in cache_k=int8/token,cache_v=int8/token cache_k=int4/channel+hadamard,cache_v=int6/token,first=4,last=16 \
    cache_k=int4/token+prerotary,cache_v=bf16,skip=0.01 keep=h2o/64 cache_v=int4/token+hadamard,keep=difference/1MB \
    keep=window/100; do
    i=$((i + 1))
    run cache-$model-$i eval $m --cache "$cache" --tasks $tasks,divergence=$text --tokens 1022 --limit 4 \
      --json "$out/cache-$model-$i.json"
  done
  run generate-$model generate $m --prompt 'It was a dark night' --tokens 24 \
    --cache cache_k=int4/token,cache_v=int4/token --quiet
  run attribute-$model attribute $m --plan int4 --by site --tasks divergence=$text --tokens 1022 \
    --out "$out/attribute-$model" --json "$out/attribute-$model.json"
  run maps-$model maps $m --plan q=int4/token,k=int4/token --input $text --tokens 1022 --json "$out/maps-$model.json" \
    --csv "$out/maps-$model.csv"
  run search-$model search $m --input $text --within 0.05 --tokens 1022 --out "$out/search-$model" \
    --json "$out/search-$model.json"
  run by-$model eval $m --tasks divergence=$text,choice=$pair/needles-4.jsonl --plan attn_logits=int4/tensor \
    --by depth --tokens 1022 --limit 12 --json "$out/by-$model.json"
  run plan-$model plan weights=int4/channel,linear_in=int8/token,attn_logits=int6/row $m --json "$out/plan-$model.json"
  run tokenize-$model tokenize $m --input "$out/calibration.txt" --out "$out/tokenize-$model.jsonl"
done
run compare compare $pair/novels-standard $d --bits 16,8,4 --granularity row,tensor \
  --tasks perplexity=$text,choice=$pair/needles-4.jsonl --tokens 1022 --limit 4 \
  --out "$out/compare" --json "$out/compare.json"
run report report "$out/compare" "$out/sweep" "$out/attribute-standard.json" "$out/search-differential.json" \
  "$out/stats-standard.json" --out "$out/report.html"
run plot plot "$out/sweep" --figure bits --out "$out/bits.svg"
run verify verify "$out/stats-standard.h5"
run make-needles make needles $d --text $text --lengths 128 --samples 2 --seed 3 --out "$out/make-needles.jsonl"
run make-shots make shots --text $text --shots 8 --samples 4 --out "$out/make-shots.jsonl"

# Where OUT lies is no figure.
grep -rlIF "$out" "$out" | xargs -r sed -i "s|$out|OUT|g"
