#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A sweep as a real Slurm array, with controller and one node on this machine: it gives the bytes of a sweep on one
# machine, also if a cell was killed while it wrote and was requeued, and if every cell ran twice. Exits with 77, which
# ctest counts as skipped, without Slurm (Debian: tools/setup.sh --slurm).
# usage: slurm_test.sh TARE ROOT
set -euo pipefail
ulimit -c 0  # slurmd of Debian 13 may crash in a library of its own
tare=${1:?usage: slurm_test.sh TARE ROOT}
cd "${2:?usage: slurm_test.sh TARE ROOT}"
for program in slurmctld slurmd sbatch; do
  command -v $program >/dev/null || { echo "slurm_test: no $program; try tools/setup.sh --slurm"; exit 77; }
done
work=$(mktemp -d)
daemons=()
finish() { kill -KILL "${daemons[@]}" 2>/dev/null || true; wait; rm -rf "$work"; }
trap finish EXIT
die() {
  echo "slurm_test: $*" >&2
  tail -qn 5 "$work"/*.log "$work"/*.out >&2 2>/dev/null
  exit 1
}
# until SECONDS COMMAND...: as soon as the command succeeds.
until_true() {
  local end=$((SECONDS + $1))
  until "${@:2}" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || die "waited $1 seconds for: ${*:2}"
    sleep 0.1
  done
}

# A cluster of this machine: no cgroups, a key of its own, two ports that nothing else of the kind uses.
mkdir "$work/state" "$work/spool"
(umask 377 && head -c 1024 /dev/urandom >"$work/slurm.key")
port=$((20000 + $$ % 20000))
cat >"$work/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
AuthType=auth/slurm
CredType=cred/slurm
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/controller.pid
SlurmdPidFile=$work/node.pid
SlurmctldLogFile=$work/controller.log
SlurmdLogFile=$work/node.log
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
export SLURM_CONF=$work/slurm.conf
slurmctld -D >"$work/controller.out" 2>&1 & daemons+=($!)
slurmd -D -N "$(hostname -s)" >"$work/node.out" 2>&1 & node=$! && daemons+=($node)

golden=tests/data/golden
sweep=("$golden/llama-mha" "$golden/diffllama-mha" --bits 16,4
  --tasks "perplexity=$golden/llama-mha/expected.safetensors")
"$tare" sweep "${sweep[@]}" --out "$work/straight" >/dev/null

# The second cell's first run leaves half a line, as one that is killed while it writes would, and waits to be killed.
cat >"$work/tare" <<RUN
#!/usr/bin/env bash
if [ "\${SLURM_ARRAY_TASK_ID:-}" = 2 ] && [ "\${SLURM_RESTART_COUNT:-0}" = 0 ]; then
  mkdir -p "$work/out/cell-1"
  head -c 100 "$work/straight/cells.jsonl" >"$work/out/cell-1/cells.jsonl"
  touch "$work/killed"
  sleep 600
fi
exec "$tare" "\$@"
RUN
chmod +x "$work/tare"
tools/cluster/cells.sh "$work/tare" "$work/out" "${sweep[@]}" >"$work/cells.txt"
until_true 20 sh -c 'sinfo -h -o %T | grep -qx idle'
tools/cluster/slurm.sh "$work/cells.txt" --cpus-per-task=1 --output="$work/job-%a.out" >"$work/submitted" \
  2>"$work/sbatch.out" & submitted=$! && daemons+=($submitted)
# On some machines the slurmd of Debian 13 crashes on the first job that it gets, in libjwt (jwt_decode).
crashed() { ! kill -0 $node 2>/dev/null; }
began() { test -e "$work/killed" || crashed; }
until_true 20 began
! crashed || { echo 'slurm_test: slurmd crashed before it ran a job; nothing was tested'; exit 77; }
job=$(sed -n 's/^Submitted batch job //p' "$work/submitted")
scontrol requeue "${job}_2"
until_true 20 sh -c "squeue -h -t PENDING -o %A | grep -q ."
sleep 2 # the node takes what was granted within the second of the kill for revoked
scontrol update "JobId=${job}_2" StartTime=now # Slurm would wait two minutes
wait $submitted || die 'the array failed'
sed -n 's/^# //p' "$work/cells.txt" | bash >/dev/null
diff -r "$work/straight" "$work/out/all" >/dev/null || die 'other bytes than those of one machine'

# Each once more, elsewhere.
tools/cluster/cells.sh "$tare" "$work/again" "${sweep[@]}" | bash
for cell in "$work"/out/cell-*; do
  cmp "$cell/cells.jsonl" "$work/again/$(basename "$cell")/cells.jsonl" || die 'two runs of a cell differ'
done
