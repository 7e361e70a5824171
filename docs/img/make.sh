#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the pictures of the pages in docs/img, in a second, from docs/results/data and the table of the search. With the
# program it also runs the models for data/heads.csv and, with Chromium, takes report.png (a minute).
# usage: docs/img/make.sh [TARE]
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."
img=docs/img data=docs/results/data

# chart NAME TITLE [VARIABLE=VALUE...]: from chart.awk's lines. diagram NAME TITLE HEIGHT: from diagram.awk's.
chart() {
  local variables=(-v style=$img/style.svg -v title="$2") variable
  for variable in "${@:3}"; do variables+=(-v "$variable"); done
  awk "${variables[@]}" -f $img/chart.awk >$img/$1.svg
}
diagram() { awk -v style=$img/style.svg -v title="$2" -v height="$3" -f $img/diagram.awk >$img/$1.svg; }
# of PROGRAM FILE...: an awk program over CSV files, with the functions of csv.awk and these two.
of() {
  awk -f tools/results/csv.awk -f <(echo '
    function interval(words) { gsub(/[^-+.0-9]+/, " ", words); gsub(/ [-+] /, " ", words); split(words, part, " ") }
    function point(series, x, y, low, high) {
      printf "point\t%s\t%s\t%s\t%s\t%s\n", series, x, y, low, high
    }'"$1") "${@:2}"
}
# of_pair STYLE TEXT: a line of a legend for both models.
of_pair() { echo "|standard/$1=standard: $2,differential/$1=differential: $2,"; }
unit=$'10\xe2\x81\xbb\xc2\xb3 nats/token'
pair='standard/x=standard,differential/x=differential'

if [ $# -gt 0 ]; then
  tare=$(realpath "$1") work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  echo model,layer,head,map,entropy >$data/heads.csv
  for model in standard differential; do
    "$tare" stats experiments/pair/novels-$model --input experiments/pair/heldout.txt --tokens 20440 --sites probs \
      --out "$work/$model.h5" --quiet >/dev/null
    "$tare" stats show "$work/$model.h5" --site probs --measures | awk -v model=$model '
      /^probs layer/ { all = /all positions/; layer = $3; head = $5; map = $7 + 0 }
      /^  entropy / && all { print model "," layer "," head "," map "," $2 }' >>$data/heads.csv
  done
  ln -s "$PWD/experiments" "$work/experiments"
  (
    cd "$work"
    "$tare" sweep experiments/pair/novels-differential --bits 16,6,4 --granularity tensor \
      --tasks perplexity=experiments/pair/heldout.txt --tokens 20440 --out bits --quiet
    "$tare" report bits --out bits.html
  ) >/dev/null
  for chromium in chromium-headless-shell chromium; do
    command -v $chromium >/dev/null || continue
    $chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --blink-settings=preferredColorScheme=1 \
      --window-size=820,830 --screenshot=$img/report.png "file://$work/bits.html" 2>/dev/null
    break
  done
fi

{
  printf 'panel\t\nx\tbits of attention logits\tlinear\t0.85\t3.3\t1=8 bits,2=6 bits,3=4 bits\n'
  printf 'y\trise of perplexity\tlinear\t-0.1\t3.7\t0,1,2,3\n'
  of 'of("result") == "perplexity" {
      for (i = 1; i <= 3; i++) {
        interval(of(10 - 2 * i " bits"))
        point(of("model") "/" (of("scale per") == "row" ? "plain" : "dashed"), i, part[2],
          part[2] - 2 * part[4], part[2] + 2 * part[4])
      } }' $data/bits.csv
} | chart bits 'At 4 bits per layer perplexity rises by 3.3 in the differential and by 1.9 in the standard model.' \
  height=230 legend="$(of_pair plain 'one scale per row')$(of_pair dashed 'one per layer')"

{
  printf 'panel\t\nx\tlayer\tlinear\t-0.15\t3.15\t0,1,2,3\ny\tlargest |x| of hidden states\tlinear\t0\t95\t0,30,60,90\n'
  of '/^"?largest/ && of("text") == "heldout" {
      for (i = 0; i < 4; i++) point(of("model") "/" (/excluding/ ? "dashed" : "plain"), i, of("layer " i)) }' \
    $data/layers.csv
} | chart largest 'Hidden states grow with depth, and the first token makes the peak in both models.' \
  height=230 \
  legend="$(of_pair plain 'all tokens')$(of_pair dashed 'without the first')"

{
  printf 'panel\t\nx\tKL divergence of the site alone, %s\tlog\t0.6\t130\t1,3,10,30,100\n' "$unit"
  printf 'y\t\tnames\n'
  of '{ site = of("plan"); sub(/=.*/, "", site)
      interval(of("differential")); y = part[1]
      point("differential/x", part[1], site, part[1] - 2 * part[2], part[1] + 2 * part[2])
      interval(of("standard"))
      point("standard/x", part[1], site, part[1] - 2 * part[2], part[1] + 2 * part[2]) }' $data/sites.csv |
    awk -F'\t' '{ key[$4] = $2 ~ /^d/ ? $3 : key[$4] } { all[NR] = $0; site[NR] = $4 }
      END { for (i = 1; i <= NR; i++) print key[site[i]] "\t" all[i] }' | sort -rn -s | cut -f2-
} | chart attribution 'The input of down_proj costs most in both models, more than twice as much as the next.' \
  left=104 legend="$pair"

{
  printf 'panel\t\n'
  printf 'x\tKL divergence, %s, log scale\tlog\t4\t3200\t5,20,100,500,2000\ny\t\tnames\n' "$unit"
  printf 'note\t%b\n' '11\t4 bits' '63\t3 bits' '900\t2 bits'
  for model in standard differential; do
    of '{ for (i = 4; i > 1; i--) {
          interval(of("int" i))
          if (part[1] != "") point("'$model'/x", part[1], $1, part[2], part[3])
          delete part } }' FS=, $data/low-bits-$model.csv
    of '/^"autoround, int2"/ {
        interval(of("'$model'"))
        point("'$model'/x", part[1], "autoround", part[2], part[3]) }' $data/autoround.csv
  done
} | chart methods 'A learned rotation and autoround diverge least at every width, in both models.' \
  left=168 legend="$pair"

{
  printf 'panel\t\nx\tKL divergence, %s, log scale\tlog\t0.02\t250\t0.03,0.3,3,30,200\ny\t\tnames\n' "$unit"
  for model in standard differential; do
    of '{ interval(of("'$model'")); error = 2 * part[2]
        point("'$model'/x", part[1], $1, part[1] - error, part[1] + error) }' FS=, $data/recipes.csv
  done
} | chart recipes 'Each recipe costs the differential model more than the standard one.' left=120 legend="$pair"

for model in standard differential; do
  printf 'panel\t%s\nx\t%s\tlinear\t2.1\t5.4\t2.5,3,3.5,4,4.5,5\n' \
    $model "$([ $model = standard ] || echo bits per value)"
  printf 'y\tKL divergence, %s\tlog\t1.2\t600\t2,10,50,200\n' "$unit"
  of 'of("bits") < 5.4 {
      plan = of("plan"); interval(of("'$model'"))
      style = plan ~ /block32/ ? "dashed" : plan ~ /^k=int.*prerotary,v=normal/ ? "plain" : ""
      point(style == "" ? "others/open" : "'$model'/" style, of("bits"), part[1]) }' $data/literature.csv |
    sort -t$'\t' -k2,2r -k3,3n
done | chart caches "KVQuant's keys with TurboQuant's values cost less in 2.41 bits than KIVI's rules in 3." \
  height=170 \
  legend="standard/plain=KVQuant's keys with TurboQuant's values,|standard/dashed=KIVI,others/open=other rules"

{
  printf 'panel\t\nx\tmean bits of the plan\tlinear\t3.8\t8\t4,5,6,7,8\n'
  printf 'y\tKL divergence, %s\tlog\t0.6\t400\t1,5,20,100\n' "$unit"
  awk -F' *[|] *' '/^\| point/ { inside = 1 } !/^\|/ { inside = 0 }
    inside && $4 + 0 + $3 != 0 && /\[/ {
      gsub(/\*/, "")
      for (i = 3; i <= 6; i += 3) {
        split($(i + 2), part, /[^-+.0-9]+/)
        printf "point\t%s/plain\t%s\t%s\t%s\t%s\n", i == 3 ? "standard" : "differential", $i, part[1], part[2], part[3]
      } }' docs/results/search.md
} | chart frontier 'Both models reach 0.02 nats per token with about 6 bits on average.' \
  height=220 \
  legend='standard/plain=standard,differential/plain=differential'

of 'of("model") != last {
    last = of("model")
    heads = last == "standard" ? 8 : 4
    for (i = 0; i < 8; i++) ticks = (i ? ticks "," : "") i + 0.5 "=" i % heads
    printf "panel\t%s\nx\thead\tlinear\t0\t8\t%s\ny\t\tnames\n", last, ticks
    if (heads == 4) print "note\t3\tmap 1\nnote\t6\tmap 2"
  }
  { share = 1 - of("entropy") / 5.2
    printf "cell\tlayer %s\t%s\t%.3f\t%.1f\n", of("layer"), of("head"), share < 0.04 ? 0.04 : share, of("entropy") }' \
  $data/heads.csv | chart maps \
    "The standard model's heads grow sharper with depth; the differential model's first maps are sharp from layer 0." \
    left=58 row_height=30

# shares RECORD: a chart's points for the figures of V1 on one thread that have a share of their limit.
shares() {
  jq -r '.figures[] | select(.share and .share <= 1 and (.case | test("^v1, (?!oneDNN).*(N |16384).* heads$")))
    | [(if .question == "decode" then "decode " else "" end),
       (.case | sub("^v1, "; "") | sub(", (with|N |[0-9]+ keys|blocks).*"; "") | sub("/token"; ""))] as $name
    | ["point", (if .case | test("f32|bf16") then "others/x" else "standard/x" end), .share, ($name | add)]
    | @tsv' "$1"
}
for machine in zen4 xeon-vnni-2-noisy xeon-amx-2-noisy; do
  printf 'panel\t%s\n' "$(jq -r .machine.name $data/speed/$machine.json)"
  printf 'x\tshare of what the machine could do\tlinear\t0\t1.05\t0,0.25,0.5,0.75,1\ny\t\tnames\n'
  shares $data/speed/$machine.json
done | chart roofline "Integer prefill reaches two thirds of Zen 4's roofline, and a fifth of AMX's." \
  left=188 \
  legend='standard/x=integers,others/x=f32 and bf16'
{
  printf 'panel\t\nx\tns per pair of query and key\tlog\t0.3\t130\t0.3,1,3,10,30,100\ny\t\tnames\n'
  jq -r '.figures[] | select(.question == "prefill" and (.case | startswith("v1")))
    | (.case | sub("^v1, "; "") | sub(", N .*"; "")) as $name | ($name | test("oneDNN")) as $rival
    | ["point", (if $rival then "others/x" else "standard/x" end), .value, $name],
      (select(.share and ($rival | not)) | ["point", "standard/open", .value * .share, $name])
    | @tsv' $data/speed/xeon-vnni-2-noisy.json
} | chart speed "Integer maps take 31 % of f32's time, and 17 % of oneDNN's int8 chain's." left=150 \
  legend="standard/x=Tare,others/x=oneDNN,standard/open=limit"

diagram sites 'Every step of a differential layer is a site; its two maps are quantized late or early.' 546 <<'END'
box hidden box 20 10 440 hidden states, and the norm
box qin site 20 62 130 q_proj.in
box kin site 175 62 130 k_proj.in
box vin site 330 62 130 v_proj.in
box qw site 20 114 130 q_proj.w
box kw site 175 114 130 k_proj.w
box vw site 330 114 130 v_proj.w
box q site 20 166 130 q
box k site 175 166 130 k
box v site 330 166 130 v
box logits site 20 218 210 attn_logits
box lambda site 240 218 65 lambda
box probs late 20 270 140 late: probs
box diff late 175 270 130 early: difference
box headout site 20 322 440 head_out
box oin site 20 374 130 o_proj.in
box ow site 175 374 130 o_proj.w
box out site 330 374 130 attn_out
box gatein site 330 426 130 gate_proj.in
box upin site 330 454 130 up_proj.in
box gatew site 175 426 130 gate_proj.w
box upw site 175 454 130 up_proj.w
box downin site 20 426 130 down_proj.in
box downw site 20 506 130 down_proj.w
box layer site 175 506 285 layer_out
arrow hidden qin
arrow hidden kin
arrow hidden vin
arrow qin qw
arrow kin kw
arrow vin vw
arrow qw q
arrow kw k
arrow vw v
arrow q logits
arrow k logits
arrow logits probs
arrow logits diff
arrow lambda diff
arrow probs headout
arrow diff headout
arrow v headout
arrow headout oin
arrow oin ow
arrow ow out
arrow out gatein
arrow gatein gatew
arrow upin upw
arrow gatew downin
arrow downin downw
arrow downw layer
END

diagram layers 'Arrows go one way: from the tools to the experiments, the kernels and the number formats.' 250 <<'END'
box tools box 20 12 250 tools: the command, Python, scripts
box experiments box 20 76 250 experiments: models, tasks, studies
box kernels box 20 140 250 kernels: attention, linear, caches
box quant box 20 204 250 quant: formats, rounding, plans
arrow tools experiments
arrow experiments kernels
arrow kernels quant
text 290 31 reads the command line
text 290 95 no command line
text 290 159 no model, no file
text 290 223 no kernel, no model
END

diagram stages 'Attention in integers: codes go through products and stages, and the reference checks each.' 330 <<'END'
text 20 22 Each is checked against the one above
box double box 20 34 440 reference: the definition, in double
box loops box 20 94 440 quantized reference: the same integers, in loops
arrow double loops
box codes site 20 166 130 codes of q, k, v
box qk site 20 226 130 tile product q k
box score site 175 226 130 stage: scores
box soft late 330 226 130 stage: softmax
box pcodes late 330 286 130 codes of maps
box pv site 175 286 130 tile product P V
box out site 20 286 130 head output
arrow loops codes
arrow codes qk
arrow qk score
arrow score soft
arrow soft pcodes
arrow pcodes pv
arrow pv out
END
