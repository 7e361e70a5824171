#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#SBATCH --job-name=tare
#SBATCH --cpus-per-task=4
#SBATCH --requeue
# One line of a file of cells, the array's number: sbatch --array=1-N tools/cluster/slurm.sh cells.txt (tools/cluster/cells.sh).
set -euo pipefail
line=$(sed -n "${SLURM_ARRAY_TASK_ID:?run it by sbatch --array=1-N}p" "${1:?usage: sbatch --array=1-N slurm.sh cells.txt}")
[ -n "$line" ] || { echo "slurm.sh: $1: got no line $SLURM_ARRAY_TASK_ID" >&2; exit 1; }
eval "$line"
