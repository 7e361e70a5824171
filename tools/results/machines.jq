# SPDX-License-Identifier: Apache-2.0
# A CSV of the questions that $question matches, from the records of machines (tools/record.sh): a row a case, a column a
# machine. A cell is the figure ($what = "value") with half of its spread, or the share of its limit ($what = "share").
def digits: pow(10; [0, 2 - ([., 1e-9] | max | log10 | floor)] | max) as $unit | (. * $unit | round) / $unit;
def cell:
  if .[$what] == null then ""
  elif $what == "share" then .share * 1000 | round / 1000 | tostring
  else "\(.value | digits)\(if .spread then " ± \(.spread * 50 | round) %" else "" end)" end;
def wanted: .question | test("^(\($question))$");
[inputs | .figures |= map(select(wanted and .[$what] != null)) | select(.figures != [])] | sort_by(.machine.name) as $records |
(["case", "unit"] + [$records[].machine.name]),
([$records[].figures[] | {case, unit: (if $what == "share" then "of \(.of)" else .unit end)}]
 | to_entries | unique_by(.value.case) | sort_by(.key)[].value
 | [.case, .unit] + [.case as $case | $records[] | [.figures[] | select(.case == $case)][0] // {} | cell])
| @csv
