# SPDX-License-Identifier: Apache-2.0
# A CSV of one question ($question) from the records of machines (tools/record.sh): a row a case, a column a machine, a
# cell the figure with its spread.
def digits: pow(10; [0, 2 - ([., 1e-9] | max | log10 | floor)] | max) as $unit | (. * $unit | round) / $unit;
def cell: if . == null then "" else "\(.value | digits) ± \(.spread * 100 | round) %" end;
[inputs] | sort_by(.machine.name) as $records |
(["case", "unit"] + [$records[] | .machine.name]),
([$records[].figures[] | select(.question == $question) | {case, unit}] | unique[] | . as $row |
 [.case, .unit] + [$records[] | first(.figures[] | select(.question == $question and .case == $row.case)) // null | cell])
| @csv
