#!/bin/bash
# The measured experiment of docs/benchmarks/decoding.md: a teacher on Europarl en-de, students tiny and small, int8-aware.
#   bash benchmarks/h200_distillation.sh            on the device machine, from the repository root; about 9.5 minutes
# Results under $OUT: distil-log.txt, distil-results.tar.xz, distil-weights.00 ... (cat them together: a tar).
# Numbers can be changed by the environment; see the list below.
set -u
{  # read as a whole before it runs
T0=$(date +%s)
: "${OUT:=/tmp/out}" "${PY:=python3}" "${DATA:=$PWD/carry/europarl}" "${WORK:=/tmp/distil}" "${LIMIT:=585}"
: "${TEACHER_MINUTES:=3.0}" "${STUDENT_MINUTES:=2.0}" "${STUDENTS:=tiny small}" "${INSTALL:=1}" "${LINES:=0}"
: "${TEACHER_SET:=}" "${STUDENT_SET:=}" "${BEAM:=5}" "${SMOKE_SET:=}" "${SMOKE_SET2:=}" "${PACK_BYTES:=58000000}" "${PART:=15m}" "${RESERVE:=95}"
mkdir -p "$OUT" "$WORK/results" "$WORK/data"
R=$WORK/results
exec > >(tee -a "$OUT/distil-log.txt") 2>&1
say() { echo "[$(date +%H:%M:%S) +$(($(date +%s) - T0))s] $*"; }
left() { echo $((LIMIT - ($(date +%s) - T0))); }
# step NAME SECONDS COMMAND...: with its own log and limit; SIGTERM first, so that harken saves a checkpoint
step() {
  local name=$1 most=$2; shift 2
  local rest; rest=$(left); [ "$most" -gt "$rest" ] && most=$rest
  [ "$most" -lt 3 ] && { say "$name: no time left"; return 1; }
  say "$name: starts (limit $most s)"
  timeout -s TERM -k 8 "$most" "$@" > "$R/$name.log" 2>&1; local rc=$?
  say "$name: rc $rc"; [ $rc -ne 0 ] && tail -n 15 "$R/$name.log"
  return $rc
}
H="$PY -m harken"
if [ "$INSTALL" = 1 ]; then
  $PY -m pip install -q --no-deps --no-index --target /tmp/distil-site carry/wheels/*.whl 2>&1 | tail -3
  export PYTHONPATH=/tmp/distil-site:$PWD/src
else
  export PYTHONPATH=$PWD/src
fi
export HARKEN_CACHE="${HARKEN_CACHE:-$WORK/cache}" PYTHONUNBUFFERED=1
nvidia-smi --query-gpu=name,utilization.gpu,memory.used --format=csv,noheader 2>/dev/null; nproc
$PY -c "import torch, harken, sacrebleu, pydantic; print(torch.__version__, harken.__file__, sacrebleu.__version__)" || say "IMPORT FAILED"
for f in train val test; do for l in en de; do
  if [ "$LINES" -gt 0 ]; then xz -dc "$DATA/$f.$l.xz" | head -n "$LINES" > "$WORK/data/$f.$l"; else xz -dc "$DATA/$f.$l.xz" > "$WORK/data/$f.$l"; fi
done; done
wc -l "$WORK"/data/train.* | head -2; say "data unpacked"

# whatever exists so far, packed; called at the end, and again where something is missing
pack() {
  say "pack"
  for side in source target; do head -n 20000 "$WORK/runs/$FIRST.pairs/train.$side" > "$R/distilled-20000.$side" 2>/dev/null; done
  $PY - "$WORK" "$R" "$PACK_BYTES" <<'PY'
import io, json, lzma, os, shutil, sys, tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
work, results, most = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
import torch
from safetensors.torch import load_file
SMALL = ("recipe.toml", "metrics.jsonl", "card.md", "data.json", "shortlist.safetensors")
for folder in sorted(path for path in (work / "runs").glob("*") if path.is_dir() and not path.name.endswith(".pairs")):
    to = results / "runs" / folder.name
    to.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.is_file() and not path.name.startswith(".") and path.name != "model.safetensors" and path.stat().st_size < 8e6 \
                and "checkpoint" not in path.name and not path.name.startswith("events"):
            shutil.copy2(path, to / path.name)
def planes(values):  # the bytes of int16 numbers, high bytes first: they compress by themselves
    raw = values.contiguous().view(torch.uint8).view(-1, 2)
    return raw[:, 1].contiguous().numpy().tobytes() + raw[:, 0].contiguous().numpy().tobytes()
def bits(path):
    state = load_file(path)
    names = sorted(name for name in state if state[name].is_floating_point())
    return names, state, {name: state[name].to(torch.bfloat16).view(torch.int16) for name in names}
def packed(name):
    """(file name, xz of a JSON header, its length first, and bf16 planes); a fine-tuned model's start as differences."""
    folder = work / "runs" / name
    names, state, own = bits(folder / "model.safetensors")
    base, other = None, work / "runs" / name.removesuffix(".float32")
    if name.endswith(".float32") and (other / "model.safetensors").is_file():
        base, (_, _, theirs) = other.name, bits(other / "model.safetensors")
        own = {one: own[one] - theirs[one] for one in names}  # int16 wraps
    header = json.dumps({"base": base, "tensors": [[one, list(state[one].shape)] for one in names]}).encode()
    body = planes(torch.cat([own[one].flatten() for one in names]))
    return f"{name}.bf16.xz", lzma.compress(len(header).to_bytes(8, "little") + header + body, preset=1)
finished = [name for size in os.environ["STUDENTS"].split() for name in (size, f"{size}.float32")
            if (work / "runs" / name / "model.safetensors").is_file()]
finished.sort(key=lambda name: name.endswith(".float32"))
total, chosen = 0, []
with ThreadPoolExecutor(4) as pool:
    for name, data in pool.map(packed, finished):
        fits = total + len(data) + 4096 <= most
        print(name, len(data), "packed" if fits else "LEFT OUT: no room", flush=True)
        if fits:
            total += len(data)
            chosen.append((name, data))
with tarfile.open(work / "weights.tar", "w") as tar:
    for name, data in chosen:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
PY
  rm -f "$OUT"/distil-weights.*
  [ -f "$WORK/weights.tar" ] && split -b "$PART" -d "$WORK/weights.tar" "$OUT/distil-weights."
  tar -C "$R" -cf - . | xz -1 -T4 > "$OUT/distil-results.tar.xz.part" && mv "$OUT/distil-results.tar.xz.part" "$OUT/distil-results.tar.xz"
  ls -la "$OUT"; say "packed"
}
export STUDENTS
trap 'say "signal"; pack; exit 1' TERM INT

mkdir -p "$WORK/runs"
mins_to_s() { $PY -c "print(int(float('$1') * 60 + 45))"; }
# 0. beside the teacher's preparation: whether students can be trained packed, and then with int8 rounding
mkdir -p "$WORK/smoke-data"
for f in train val; do for l in en de; do head -n 3000 "$WORK/data/$f.$l" > "$WORK/smoke-data/$f.$l"; done; done
(
  SMOKE="--set data.dir=$WORK/smoke-data --set data.pair=en-de --set train.validate_sentences=20 --set train.batch_tokens=4096 $SMOKE_SET"
  step smoke ${SMOKE_LIMIT:-100} $H train europarl-transformer --set model.decoder_mixer=ssru --set model.decoder_layers=2 --set model.width=256 \
    --set model.heads=4 --set model.feedforward=1024 --set tokenizer.size=1000 --set train.max_steps=12 --set train.max_minutes=1.5 $SMOKE --out "$WORK/smoke" \
    || touch "$WORK/no-packing"
  paste "$WORK/smoke-data/train.en" "$WORK/smoke-data/train.de" > "$WORK/smoke.tsv"
  step smoke-int8 ${SMOKE_LIMIT:-60} $H train "$WORK/smoke.tsv" --start "$WORK/smoke" --set adapt.int8=true --set train.validate_sentences=20 \
    --set train.max_steps=8 --set train.max_minutes=1 --set train.batch_tokens=4096 $SMOKE_SET2 --out "$WORK/smoke-int8" || touch "$WORK/no-int8"
) &
SMOKING=$!
# 1. the teacher
step teacher "$(mins_to_s "$TEACHER_MINUTES")" $H train europarl-transformer --set data.dir="$WORK/data" --set data.pair=en-de \
  --set train.max_minutes="$TEACHER_MINUTES" --set tokenizer.max_lines=200000 $TEACHER_SET --out "$WORK/runs/teacher"
tail -n 3 "$R/teacher.log"
# 2. its score, beside what follows
( step evaluate-teacher 120 $H evaluate "$WORK/runs/teacher" --split test --json
  step evaluate-teacher-valid 60 $H evaluate "$WORK/runs/teacher" --split valid --json
  step translate-teacher 60 bash -c "$H translate $WORK/runs/teacher < $WORK/data/test.en > $R/teacher.test.de"
  tail -n 40 "$R/evaluate-teacher.log" ) &
SCORING=$!
# 3. the first student translates; the others take its pairs over, and all train side by side
wait $SMOKING
INT8=--int8
[ -f "$WORK/no-packing" ] && { say "students are trained padded"; STUDENT_SET="--set model.attention_dropout=0.01 $STUDENT_SET"; }
[ -f "$WORK/no-int8" ] && { say "students are not fine-tuned for int8"; INT8=; }
student() {  # NAME resume?
  local minutes; minutes=$($PY -c "print(max(0.3, min($STUDENT_MINUTES, ($(left) - $RESERVE - ${3:-0}) / 60)))")
  say "student $1: $minutes minutes"
  step "distil-$1" 500 $H distill "$WORK/runs/teacher" --out "$WORK/runs/$1" --size "$1" $INT8 --quiet --beam "$BEAM" $2 \
    --set train.max_minutes="$minutes" --set train.batch_tokens=16384 \
    --set train.learning_rate="$(case $1 in tiny) echo 2e-3;; *) echo 1.4e-3;; esac)" --set train.schedule=cosine \
    --set train.warmup_steps=400 --set model.dropout=0.05 --set train.validate_sentences=300 \
    --set tokenizer.max_lines=200000 --set search.shortlist=0 $STUDENT_SET
  step "evaluate-$1" 60 $H evaluate "$WORK/runs/$1" --split test --shortlist 0 --json
  step "evaluate-$1-float32" 60 $H evaluate "$WORK/runs/$1.float32" --split test --shortlist 0 --json
  step "evaluate-$1-beam" 60 $H evaluate "$WORK/runs/$1.float32" --split test --shortlist 0 --beam "$BEAM" --json
}
set -- $STUDENTS
FIRST=$1; shift
student "$FIRST" "" 60 &
PIDS=$!
for name in "$@"; do  # the translations are complete once train.target is there
  (
    while [ ! -f "$WORK/runs/$FIRST.pairs/train.target" ] && [ "$(left)" -gt 60 ]; do sleep 0.5; done
    sleep 2; say "translations: $(wc -l < "$WORK/runs/$FIRST.pairs/train.target")"
    cp -r "$WORK/runs/$FIRST.pairs" "$WORK/runs/$name.pairs"; rm -f "$WORK/runs/$name.pairs/.lock"
    student "$name" --resume
  ) &
  PIDS="$PIDS $!"
done
wait $SCORING
nvidia-smi --query-gpu=utilization.gpu,memory.used --format=csv,noheader 2>/dev/null
( while [ "$(left)" -gt 45 ]; do sleep 1; done; say "time is nearly up: packing what there is"; touch "$WORK/late" ) & ALARM=$!
while [ ! -f "$WORK/late" ]; do
  running=0; for p in $PIDS; do kill -0 "$p" 2>/dev/null && running=1; done
  [ $running = 0 ] && break; sleep 1
done
kill $ALARM 2>/dev/null
for name in $STUDENTS; do echo "== $name"; tail -n 4 "$R/distil-$name.log"; cat "$R"/evaluate-$name*.log | tail -n 60; done
pack
say "done"
exit 0
}
