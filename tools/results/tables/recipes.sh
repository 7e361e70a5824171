#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/recipes.md, for tools/results/make.sh: the demo models, with five other pairs; the standard one
# beside a differential copy; what papers claim; and times of recipes that are executed.
#: recipes.awk csv=recipes columns=1,2,3,4,6
#:  rows=^`?(sage[123]|fa3-fp8|int-flash|torchao-int8|kivi2|mr-gptq-nvfp4)`?.[|]
#:  recipes/table.csv recipes-5/pairs.csv
names=sage1,sage2,sage2pp,sage2-paper,sage3,fa3-fp8,int-flash,torchao-int8,vllm-fp8
names+=,kivi4,kivi2,kvquant3,turboquant4,turboquant3,mr-gptq-nvfp4
pair=experiments/pair
# of_pair NAME STANDARD DIFFERENTIAL [OPTION...]: all recipes. of_plans: what options say.
of_pair() { of_plans "$@" --plans $names; }
of_plans() {
  tare compare "$2" "$3" --attribute none --tasks divergence=$pair/heldout.txt --window 256 \
    --tokens 10200 --out "$1" "${@:4}"
}
of_pair recipes $pair/novels-standard $pair/novels-differential
for seed in 1 2 3 4 5; do
  [ $seed -lt 5 ] && also= || also="--also recipes-1 --also recipes-2 --also recipes-3 --also recipes-4"
  of_pair recipes-$seed $pair/seeds/standard-$seed $pair/seeds/differential-$seed $also
done
#: recipes.awk csv=copies columns=1,3,4 rows=^`?(sage3|int-flash|kivi2)`?.[|] copies/table.csv
[ -e copy ] || tare convert $pair/novels-standard --to diff_v2 --out copy
of_pair copies $pair/novels-standard copy
#: recipes.awk csv=claims columns=1,2,3,4 claims/table.csv
plans=()
for plan in k=int4/token{,+smoothall} v=int3/token+min{,+hadamard} k=normal3/token+hadamard \
  k=normal2/token+hadamard+sketch; do
  plans+=(--plan $plan)
done
of_plans claims $pair/novels-standard $pair/novels-differential "${plans[@]}"
#: rows.awk csv=recipes-times rows=^ns columns=1,2,3,4,5,6,7 times.csv
[ -e times.json ] || tare bench attention --family v1 --plan int-flash --plan int8 --plan int6 --plan int4 \
  --plan q=int8/token,k=int8/token,difference=int8/block256,v=int8/block256.channel --repetitions 15 --quiet \
  --json times.json
jq -r '[.cases[] | select(.kernel | startswith("tare"))]
  | ["figure", (.[] | if .plan | test("^$|=") then .name else .plan end)],
    ["ns per pair", (.[].ns_per_pair * 100 | round / 100)], ["spread, %", (.[].spread * 100 | round)]
  | @csv' times.json >times.csv
