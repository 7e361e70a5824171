#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Table of docs/results/recipes.md, for tools/results/make.sh.
#: recipes.awk csv=recipes columns=1,2,3,5
#:   names=sage1,sage2,sage2pp,fa3-fp8,int-flash,vllm-fp8,kivi4,kivi2,kvquant3,turboquant4,turboquant3,mr-gptq-nvfp4
#:   recipes/table.csv recipes-5/pairs.csv
names=sage1,sage2,sage2pp,fa3-fp8,int-flash,vllm-fp8,kivi4,kivi2,kvquant3,turboquant4,turboquant3,mr-gptq-nvfp4
pair=experiments/pair
tare compare $pair/novels-standard $pair/novels-differential --plans $names --attribute none \
  --tasks divergence=$pair/heldout.txt --window 256 --tokens 10200 --out recipes
for seed in 1 2 3 4 5; do
  [ $seed -lt 5 ] && also= || also="--also recipes-1 --also recipes-2 --also recipes-3 --also recipes-4"
  tare compare $pair/seeds/standard-$seed $pair/seeds/differential-$seed --plans $names --attribute none \
    --tasks divergence=$pair/heldout.txt --window 256 --tokens 10200 --out recipes-$seed $also
done
