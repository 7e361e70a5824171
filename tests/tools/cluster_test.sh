#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Statistics in parts and a sweep by cells give the bytes of one machine. The sweep: with GNU parallel if it is
# installed, else line by line; with a cell that was cut short; with HyperQueue's command; and with the script of a
# Slurm array, its number given by hand (slurm_test.sh uses a real one). Missing cells are named.
# usage: cluster_test.sh TARE ROOT
set -euo pipefail
tare=$1
cd "${2:?usage: cluster_test.sh TARE ROOT}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "cluster_test: $*" >&2; exit 1; }

golden=tests/data/golden
sweep=("$golden/llama-mha" "$golden/diffllama-mha" --bits 16,4
  --tasks "perplexity=$golden/llama-mha/expected.safetensors")
"$tare" sweep "${sweep[@]}" --out "$work/straight" >/dev/null
tools/cluster/cells.sh "$tare" "$work/out" "${sweep[@]}" >"$work/cells.txt"
[ "$(grep -vc '^#' "$work/cells.txt")" = 4 ] ||
  die "got $(cat "$work/cells.txt"), expected a line for each of four cells"
merge() { sed -n 's/^# //p' "$work/cells.txt" | bash; }
same() { diff -r "$work/straight" "$work/out/all" >/dev/null || die "$1: other bytes than those of one machine"; }

# A Slurm array's first and third; the others are missing.
for number in 1 3; do SLURM_ARRAY_TASK_ID=$number bash tools/cluster/slurm.sh "$work/cells.txt"; done
said=$(merge 2>&1 >/dev/null) && die 'merged what is not there'
case $said in *'cell-1/cells.jsonl: no such file'*) ;; *) die "got '$said', expected the folder that is missing" ;; esac
! SLURM_ARRAY_TASK_ID=9 bash tools/cluster/slurm.sh "$work/cells.txt" 2>/dev/null || die 'ran a line that is not there'

# Killed while it wrote.
head -c 100 "$work/out/cell-2/cells.jsonl" >"$work/cut" && mv "$work/cut" "$work/out/cell-2/cells.jsonl"
if command -v parallel >/dev/null; then parallel --will-cite -j 2 <"$work/cells.txt"; else bash "$work/cells.txt"; fi
merge >/dev/null
same 'cells'

# As HyperQueue hands a line to a task: in HQ_ENTRY, the command that cells.sh names. (Its server is in no distribution:
# not run here.)
run=$(sed -n 's/^#   HyperQueue .* -- //p' tools/cluster/cells.sh)
rm -r "$work"/out/*
while read -r line; do HQ_ENTRY=$line sh -c "$run"; done <"$work/cells.txt"
merge >/dev/null
same 'HyperQueue'

# Statistics in parts, of which one is there; with a name that a shell would take apart.
stats=(experiments/pair/novels-standard --input experiments/pair/nowhere.txt --window 256 --tokens 4000
  --sites layer_out)
"$tare" stats "${stats[@]}" --out "$work/one.h5" >/dev/null
shards="$work/s; exit 1.h5"
tools/cluster/shards.sh "$tare" "$shards" 2 "${stats[@]}" >"$work/shards.txt"
SLURM_ARRAY_TASK_ID=2 bash tools/cluster/slurm.sh "$work/shards.txt"
touch -d 2000-01-01 "$shards.1"
bash "$work/shards.txt"
[ "$(date -r "$shards.1" +%Y)" = 2000 ] || die 'made a part again that was whole'
sed -n 's/^# //p' "$work/shards.txt" | bash >/dev/null
cmp "$work/one.h5" "$shards" || die 'statistics in parts: other bytes than those of one machine'
said=$(tools/cluster/shards.sh "$tare" "$shards" 0 "${stats[@]}" 2>&1) && die 'made no parts'
[[ $said == "shards.sh: got '0', expected a number of parts"* ]] || die "no parts: $said"

# By hand the script hands itself to Slurm, with the number of lines and the options.
mkdir "$work/bin"
printf '#!/bin/sh\necho "$@"\n' >"$work/bin/sbatch" && chmod +x "$work/bin/sbatch"
said=$(PATH="$work/bin:$PATH" tools/cluster/slurm.sh "$work/cells.txt" --partition=x)
[ "$said" = "--wait --array=1-4 --partition=x tools/cluster/slurm.sh $work/cells.txt" ] || die "submitted: $said"
echo '# nothing' >"$work/empty.txt"
mkdir "$work/without"
for program in bash grep; do ln -s "$(command -v $program)" "$work/without"; done
said=$(PATH=$work/without bash tools/cluster/slurm.sh "$work/cells.txt" 2>&1) && die 'submitted without Slurm'
[[ $said == 'slurm.sh: found no sbatch; try '* ]] || die "without Slurm: $said"
said=$(tools/cluster/slurm.sh "$work/empty.txt" 2>&1) && die 'submitted no cells'
case $said in *'empty.txt: got no cells'*) ;; *) die "got '$said', expected the file without cells" ;; esac

# No file's name is an option, and no number a program of sed's.
printf 'touch %q\n' "$work/ran" >"$work/-n.txt"
script=$PWD/tools/cluster/slurm.sh
(cd "$work" && SLURM_ARRAY_TASK_ID=1 bash "$script" -n.txt) || die 'refused a file whose name begins with -'
[ -e "$work/ran" ] || die 'did not run the line of a file whose name begins with -'
! SLURM_ARRAY_TASK_ID="1e touch $work/broken #" bash "$script" "$work/cells.txt" 2>/dev/null || die 'took any number'
[ ! -e "$work/broken" ] || die 'ran a number as a program'

# Cells of another limit are not merged.
"$tare" sweep "${sweep[@]}" --limit 1 --cells 3 --out "$work/out/other" >/dev/null
said=$("$tare" sweep "${sweep[@]}" --out "$work/x" --merge "$work/out/other" 2>&1 >/dev/null) &&
  die 'merged cells of two sweeps'
case $said in *'a run of another limit'*) ;; *) die "got '$said', expected the setting that differs" ;; esac
