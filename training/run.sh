#!/bin/sh
# Rebuilds the demo models from nothing. Run it again after an interruption: finished stages are skipped and all trainings
# resume from their checkpoints. TARGET_MINUTES and DRAFTER_MINUTES set the time spent on the target and on DSpark, BLOCKS what
# the other drafters see, HEAD_BLOCKS what DSpark's heads see for their comparison, THREADS the processes.
set -eu
cd "$(dirname "$0")"
python=/usr/bin/python3
threads=${THREADS:-2}
export OMP_WAIT_POLICY=passive  # waiting threads sleep, so that a busy machine is shared well
export OPENBLAS_NUM_THREADS=1
mkdir -p work

stage() {  # stage NAME COMMAND...: runs it once
    name=$1
    shift
    [ -e "work/$name.done" ] || { echo "== $name"; "$@"; touch "work/$name.done"; }
}

samples() {
    pids=
    for seed in $(seq "$threads"); do
        $python sample.py --seed "$seed" --tokens 5e5 & pids="$pids $!"
    done
    for pid in $pids; do wait "$pid"; done
}

stage setup ./setup.sh
stage corpus $python corpus.py
stage tokenizer $python tokenizer.py
stage tokens $python data.py
stage target $python train_target.py --threads "$threads" --minutes "${TARGET_MINUTES:-75}"
stage samples samples
stage drafter $python train_dspark.py --threads "$threads" --minutes "${DRAFTER_MINUTES:-40}"
stage drafters $python train_drafters.py --threads "$threads" --blocks "${BLOCKS:-297504}"
stage heads $python train_drafters.py --threads "$threads" --blocks "${HEAD_BLOCKS:-99072}" --only dspark_vanilla,dspark_gated,dspark_rnn
$python install.py
$python prompts.py
$python tiny.py
$python tiny_drafters.py
$python golden.py --all
$python golden_drafters.py --all
$python report.py
