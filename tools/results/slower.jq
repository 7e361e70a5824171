# SPDX-License-Identifier: Apache-2.0
# What a record (tools/record.sh) shows to be slower than an older one: by more than both spreads together, and 2 %.
def key: [.question, .case];
def percent: (. * 1000 | round) / 10;
def short: . as $x | pow(10; 3 - ([$x, 1e-9] | max | log10 | floor)) as $unit | (. * $unit | round) / $unit;
input as $old | input as $new |
if $old.small or $new.small then "record: got one of --small, expected whole ones\n" | halt_error(1) else . end |
if ($old.machine | [.cpu, .cores]) != ($new.machine | [.cpu, .cores]) then
  "record: got \($old.machine.name) and \($new.machine.name), expected one machine\n" | halt_error(1) else . end |
($old.figures | map({key: (key | tojson), value: .}) | from_entries) as $before |
[$new.figures[] | . as $now | $before[key | tojson] // empty |
 {was: ., now: $now, times: (if .better == "less" then $now.value / .value else .value / $now.value end),
  noise: ([.spread + $now.spread, 0.02] | max)}] as $both |
($both | map(select(.times > 1 + .noise)) | sort_by(-.times)) as $slower |
($slower[] | "slower \(.times - 1 | percent) %: \(.now.question), \(.now.case): \(.was.value | short) -> \(.now.value | short) \(.now.unit) (spreads \(.was.spread | percent) and \(.now.spread | percent) %)"),
"\($both | length) figures compared, \($slower | length) slower, \($both | map(select(.times < 1 - .noise)) | length) faster",
if ($slower | length) > 0 then "" | halt_error(1) else empty end
