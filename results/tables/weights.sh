#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables of docs/results/weights.md, for results/make.sh.
#: weights.awk csv=weights-standard,weights-differential,weights-steps tables=1,2 standard/table.csv
#:   standard-executed/table.csv differential/table.csv differential-executed/table.csv
head -c 150000 experiments/pair/heldout.txt >first.txt
for cut in 150001 420001 690001 1100001 1234330; do
  head -c $((cut + 199999)) experiments/pair/heldout.txt | tail -c 200000 >calibration-$cut.txt
done
# version MODEL WIDTH METHOD RULES: by each cut in turn, or without calibration text.
version() {
  local cuts="150001 420001 690001 1100001 1234330" cut
  case $3 in rtn | hadamard+rtn) cuts=none ;; esac
  for cut in $cuts; do
    [ -e $1_$2_$3_$cut.h5 ] || tare quantize experiments/pair/novels-$1 --plan weights=$4 --method $3 \
      $([ $cut = none ] || echo --calibrate calibration-$cut.txt --tokens 16384) --out $1_$2_$3_$cut.h5
  done
}
tasks=divergence=experiments/pair/nowhere.txt,divergence=first.txt
for model in standard differential; do
  for method in rtn hadamard+rtn gptq gptaq gptaq+quantease; do
    case $method in rtn | hadamard+rtn)
      for bits in 8 6; do version $model int$bits $method int$bits/channel; done ;;
    esac
    version $model int4 $method int4/channel
    version $model int4-groups $method int4/group64,down_proj.w=int4/group16
  done
  version $model int4 smoothquant+rtn int4/channel
  tare sweep $(ls ${model}_*.h5 | grep -v smoothquant) --source experiments/pair/novels-$model --tokens 20440 \
    --tasks $tasks --out $model
  tare sweep ${model}_int[864]_rtn_none.h5 ${model}_int4_{smoothquant+rtn,gptaq+quantease}_*.h5 \
    --source experiments/pair/novels-$model --plan linear_in=int8/token --executed --tokens 20440 --tasks $tasks \
    --out $model-executed
done
