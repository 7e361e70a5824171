#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/low-bits.md, for tools/results/make.sh.
#: low_bits.awk
#:   csv=low-bits-standard,low-bits-differential,low-bits-ppl-standard,low-bits-ppl-differential,low-bits-left
#:   tables=1,2 columns=1,2,7 rows=^(rtn|awq|gptq|gptaq.q|qronos|cayley|signround|autoround|svdquant)
#:   standard/table.csv differential/table.csv
# version MODEL WIDTH METHOD RULES: calibrated on each fifth in turn, or without calibration text.
version() {
  local cuts='0 1 2 3 4' cut
  case $3 in rtn | hadamard+rtn | svdquant) cuts=none ;; esac
  for cut in $cuts; do
    [ -e $1_$2_$3_$cut.h5 ] || tare quantize experiments/pair/novels-$1 --plan weights=$4 --method $3 \
      $([ $cut = none ] || echo --calibrate experiments/pair/heldout.txt --cut $cut/5 --tokens 16384) \
      --out $1_$2_$3_$cut.h5
  done
}
for model in standard differential; do
  for method in rtn hadamard+rtn awq+rtn gptq hadamard+gptq gptaq qronos gptaq+quantease cayley+gptaq+quantease \
    signround autoround svdquant; do
    for width in int4 int3 int2; do
      [ $method$width = autoroundint2 ] && continue  # typed below
      version $model $width $method $width/group64,down_proj.w=$width/group16
      version $model $width+zero $method $width/group64+zero,down_proj.w=$width/group16+zero
    done
    case $method in rtn | hadamard+rtn | *gptq) version $model e8p $method e8p/channel ;; esac
  done
  tare sweep ${model}_*.h5 --source experiments/pair/novels-$model --tokens 20440 \
    --tasks divergence=experiments/pair/nowhere.txt --out $model
done
#: rows.awk columns=1,3,4,6,7 data/inputs-int4.csv
