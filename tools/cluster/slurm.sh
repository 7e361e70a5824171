#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#SBATCH --job-name=tare
#SBATCH --cpus-per-task=4
#SBATCH --requeue
# Runs a file of cells (tools/cluster/cells.sh) as a Slurm array, one line per job. Run by hand, it submits itself as an
# array with as many jobs as the file has lines, and waits for the last; run by Slurm, it runs the line of its job.
# Slurm's MaxArraySize limits the array.
#
# usage: tools/cluster/slurm.sh CELLS.txt [OPTION OF SBATCH]...      for example --cpus-per-task=16 --partition=cpu
set -euo pipefail
cells=${1:?usage: tools/cluster/slurm.sh CELLS.txt [OPTION OF SBATCH]...}
# Read as standard input: no file's name is an option of grep or sed, and no number a program of sed's.
[ -r "$cells" ] ||
  { echo "slurm.sh: $cells: cannot read it; try the file that tools/cluster/cells.sh made" >&2; exit 1; }
if [ -z "${SLURM_ARRAY_TASK_ID:-}" ]; then
  lines=$(grep -vc '^#' <"$cells") ||
    { echo "slurm.sh: $cells: got no cells, expected one per line; see tools/cluster/cells.sh" >&2; exit 1; }
  command -v sbatch >/dev/null || {
    echo "slurm.sh: found no sbatch; try a machine of a Slurm cluster, or another way that cells.sh names" >&2
    exit 1
  }
  exec sbatch --wait --array="1-$lines" "${@:2}" "$0" "$cells"
fi
case $SLURM_ARRAY_TASK_ID in
  *[!0-9]*) echo "slurm.sh: got SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_ID, expected a number" >&2; exit 1 ;;
esac
line=$(sed -n "${SLURM_ARRAY_TASK_ID}p" <"$cells")
case $line in '' | '#'*) echo "slurm.sh: $cells: got no line $SLURM_ARRAY_TASK_ID" >&2; exit 1 ;; esac
eval "$line"
