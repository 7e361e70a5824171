#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A sweep as a real Slurm array, with controller, one node and munge on this machine: it gives the bytes of a sweep on
# one machine, also if a cell was killed while it wrote and was requeued, and if every cell ran twice. Exits with 77,
# which ctest counts as skipped, without Slurm (Debian: tools/setup.sh --slurm).
# usage: slurm_test.sh TARE ROOT
set -euo pipefail
ulimit -c 0  # slurmd of Debian 13 may crash in a library of its own
tare=${1:?usage: slurm_test.sh TARE ROOT}
cd "${2:?usage: slurm_test.sh TARE ROOT}"
for program in munged slurmctld slurmd sbatch; do
  PATH=$PATH:/usr/sbin command -v $program >/dev/null ||
    { echo "slurm_test: no $program; try tools/setup.sh --slurm"; exit 77; }
done
PATH=$PATH:/usr/sbin
work=$(mktemp -d)
chmod 755 "$work"  # munge wants its socket reachable
trap 'rm -rf "$work"' EXIT
golden=tests/data/golden
sweep=("$golden/llama-mha" "$golden/diffllama-mha" --bits 16,4
  --tasks "perplexity=$golden/llama-mha/expected.safetensors")
"$tare" sweep "${sweep[@]}" --out "$work/straight" >/dev/null

# Of one cluster, in a process of its own.
daemons=()
finish() { kill -KILL "${daemons[@]}" 2>/dev/null || true; wait; }
crashed() { ! kill -0 "$node" 2>/dev/null; }
lost=3  # the exit of a cluster whose node crashed
die() {
  echo "slurm_test: $*" >&2
  tail -qn 5 "$at"/*.log "$at"/*.out >&2 2>/dev/null
  ! crashed || exit $lost
  exit 1
}
# until_true SECONDS COMMAND...: as soon as the command succeeds.
until_true() {
  local end=$((SECONDS + $1))
  until "${@:2}" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || die "waited $1 seconds for: ${*:2}"
    sleep 0.1
  done
}

# A cluster of this machine in the folder: no cgroups, a key of its own, two ports that nothing else of the kind uses.
start_cluster() {
  at=$1 port=$((20000 + (BASHPID * 2) % 40000))
  mkdir "$at" "$at/state" "$at/spool"
  (umask 377 && head -c 1024 /dev/urandom >"$at/munge.key")
  cat >"$at/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
AuthType=auth/munge
AuthInfo=socket=$at/munge
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
StateSaveLocation=$at/state
SlurmdSpoolDir=$at/spool
SlurmctldPidFile=$at/controller.pid
SlurmdPidFile=$at/node.pid
SlurmctldLogFile=$at/controller.log
SlurmdLogFile=$at/node.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0
KillWait=1
NodeName=$(hostname -s) NodeAddr=127.0.0.1 CPUs=4
PartitionName=all Nodes=$(hostname -s) Default=YES
CONF
  export SLURM_CONF=$at/slurm.conf
  munged --foreground --force --key-file="$at/munge.key" --socket="$at/munge" --pid-file="$at/munge.pid" \
    --log-file="$at/munge.log" --seed-file="$at/munge.seed" >"$at/munge.out" 2>&1 & daemons+=($!)
  until [ -S "$at/munge" ]; do sleep 0.1; done
  slurmctld -D >"$at/controller.out" 2>&1 & daemons+=($!)
  slurmd -D -N "$(hostname -s)" >"$at/node.out" 2>&1 & node=$! && daemons+=($node)
}

run_array() {
  trap finish EXIT
  start_cluster "$1"
  # The second cell's first run leaves half a line, as one that is killed while it writes would, and waits to be killed.
  cat >"$at/tare" <<RUN
#!/usr/bin/env bash
if [ "\${SLURM_ARRAY_TASK_ID:-}" = 2 ] && [ "\${SLURM_RESTART_COUNT:-0}" = 0 ]; then
  mkdir -p "$at/out/cell-1"
  head -c 100 "$work/straight/cells.jsonl" >"$at/out/cell-1/cells.jsonl"
  touch "$at/killed"
  sleep 600
fi
exec "$tare" "\$@"
RUN
  chmod +x "$at/tare"
  tools/cluster/cells.sh "$at/tare" "$at/out" "${sweep[@]}" >"$at/cells.txt"
  until_true 20 sh -c 'sinfo -h -o %T | grep -qx idle'
  tools/cluster/slurm.sh "$at/cells.txt" --cpus-per-task=1 --output="$at/job-%a.out" >"$at/submitted" \
    2>"$at/sbatch.out" & submitted=$! && daemons+=($submitted)
  began() { test -e "$at/killed" || crashed; }
  until_true 20 began
  ! crashed || die 'slurmd crashed before it ran a job'
  job=$(sed -n 's/^Submitted batch job //p' "$at/submitted")
  scontrol requeue "${job}_2"
  until_true 20 sh -c "squeue -h -t PENDING -o %A | grep -q ."
  sleep 2 # the node takes what was granted within the second of the kill for revoked
  scontrol update "JobId=${job}_2" StartTime=now # Slurm would wait two minutes
  wait $submitted || die 'the array failed'
  sed -n 's/^# //p' "$at/cells.txt" | bash >/dev/null
  diff -r "$work/straight" "$at/out/all" >/dev/null || die 'other bytes than those of one machine'

  # Each once more, elsewhere.
  tools/cluster/cells.sh "$tare" "$at/again" "${sweep[@]}" | bash
  for cell in "$at"/out/cell-*; do
    cmp "$cell/cells.jsonl" "$at/again/$(basename "$cell")/cells.jsonl" || die 'two runs of a cell differ'
  done
}

# A cluster whose node crashes is made again.
for try in 1 2 3; do
  run_array "$work/cluster-$try" & code=0
  wait $! || code=$?
  [ $code -eq $lost ] || exit $code
done
echo 'slurm_test: slurmd crashed in three clusters, expected one where it runs' >&2
exit 1
