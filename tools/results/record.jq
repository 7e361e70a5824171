# SPDX-License-Identifier: Apache-2.0
# The record of a machine (tools/record.sh) from the results of its rounds: each figure is the median of the rounds, its
# spread (largest - smallest) / median of them, or of the calls where there is one round.

# One thread is not named.
def threads: if . == 1 then "" else ", \(.) threads" end;
def program: if test("^onednn") then "oneDNN \(ltrimstr("onednn-"))" else . end;
# A cache's plan by its one format, where keys and values have the same.
def cache: (capture("^cache_k=(?<k>[^,]+),cache_v=(?<v>[^,]+)$")? | select(.k == .v) | .k) // .;

# What a result of `tare bench` or `tare generate` measured.
def figures:
  if .schema == "tare.generate/1" then
    {question: "tokens", case: "one by one, \(.model), \(if .plan == "" then "unquantized" else .plan end)", unit: "tokens/s", better: "more",
     value: .tokens_per_second, spread: 0}
  elif .schema == "tare.bench.forward/1" then
    . as $run | .timings[] |
    {question: "forward", case: "\(.family), \(.what), \($run.batch) x \($run.tokens)\($run.threads | threads)",
     unit: "tokens/s", better: "more", value: .tokens_per_second, spread, share, of: "oneDNN's large product"}
  elif .bench == "decode" then
    .cases[] |
    {question: "decode",
     case: "\(.family), \(if .plan == "" then .kernel | program else .plan | cache end), \(.n) keys, d \(.d), \(.heads) heads\(.threads | threads)",
     unit: "ns per key and head", better: "less", value: .ns_per_key_head, spread, share: .bandwidth_fraction,
     of: "reading", error: .rel_l2}
  elif .bench == "linear" then
    .cases[] | "\(.rows) x \(.in) by \(.out)\(.threads | threads)" as $shape |
    {question: "linear", case: "\(.plan), \($shape)", unit: "ms", better: "less", value: (.seconds * 1e3), spread,
     share: .roofline_fraction, of: "roofline", error: .rel_l2},
    {question: "linear", case: "oneDNN f32, \($shape)", unit: "ms", better: "less", value: (.f32_seconds * 1e3),
     spread: .f32_spread}
  else
    .cases[] |
    {question: "prefill",
     case: "\(.family), \(.name // (.kernel | program)), N \(.n), d \(.d), \(.heads) heads\(.threads | threads)",
     unit: "ns per pair", better: "less", value: .ns_per_pair, spread, share: .roofline_fraction, of: "roofline",
     error: .rel_l2}
  end;

def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2] + .[length / 2 - 1]) / 2 end;
def merged:
  .[0] + {rounds: length, value: (map(.value) | median)}
  + (if length > 1 then {spread: ((map(.value) | max - min) / (map(.value) | median))} else {} end)
  + (map(.share | numbers) | if length > 0 then {share: median} else {} end);

[inputs] as $results |
# Two cases may have one name (a default set times oneDNN beside each plan): they are one figure.
[$results[] | figures | select(.value)] | group_by([.question, .case]) | map(merged) as $figures |
{schema: "tare.record/1", version: $version, date: $date, machine: $machine,
 limits: [$results[] | .roofline // empty] | (first // {}) | with_entries(.key as $k | .value = ([$results[] | .roofline // empty | .[$k] | numbers] | median)),
 quiet: {busy_percent: $load, median_spread: ($figures | map(.spread) | median),
         largest_spread: ($figures | map(.spread) | max)}}
+ (if $small != "" then {small: true} else {} end)
+ {figures: $figures}
