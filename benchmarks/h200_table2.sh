# harken table2 on the GPU machine; run in the repository root: bash benchmarks/h200_table2.sh [SECONDS] [BUDGETS] [more options]
# Goes on with the record of earlier calls: carry/results/record.jsonl (and outputs.tar.xz, where there is one).
# First, for 60% of the time (PARALLEL=PERCENT), the families without recurrent layers, six at once by MPS; then the recurrent ones, whose kernels
# wait for each other and must not run under MPS, two at once.
set -u
seconds=${1:-480} budgets=${2:-1e15,3e15,1e16}; shift 2 2>/dev/null || shift $#
began=$SECONDS
nvidia-smi --query-gpu=name,driver_version --format=csv
python3 -m pip install -q --no-deps --no-index --find-links carry/wheels --target /tmp/site \
  pydantic pydantic_core annotated_types typing_inspection tomli_w rapidfuzz prometheus_client typing_extensions filelock \
  typer annotated_doc click shellingham rich markdown_it_py mdurl pygments sacrebleu portalocker colorama tabulate lxml regex \
  pysubs2 polib 2>&1 | tail -2
export PYTHONPATH=/tmp/site:$PWD/src HARKEN_CACHE=/tmp/hc PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1 TRITON_CACHE_DIR=/tmp/triton
export PYTORCH_NVML_BASED_CUDA_CHECK=1
out=/tmp/table2
mkdir -p $out $OUT
if [ ! -d $out/prepared ]; then  # otherwise the machine still has what the last call left
  tar -C $out -xJf carry/prepared.tar.xz
  [ -f carry/results/record.jsonl ] && cp carry/results/record.jsonl $out/
  [ -f carry/results/outputs.tar.xz ] && tar -C $out -xJf carry/results/outputs.tar.xz
fi

mps=/tmp/mps jobs=2  # without MPS: processes take turns, and each wait for the GPU costs a turn of the others
mkdir -p $mps
if command -v nvidia-cuda-mps-control && CUDA_MPS_PIPE_DIRECTORY=$mps CUDA_MPS_LOG_DIRECTORY=$mps nvidia-cuda-mps-control -d &&
  CUDA_MPS_PIPE_DIRECTORY=$mps timeout 60 python3 -c "import torch; print('MPS', torch.ones(9, device='cuda').sum().item())"; then
  jobs=6
else
  echo "no MPS"; mps=/tmp/none
fi

run() {  # name jobs until families ...
  local name=$1 jobs=$2 left=$(($3 - (SECONDS - began))) families=$4; shift 4
  timeout -k 15 $((left + 30)) python3 -m harken table2 --source carry/data/train.en.xz --target carry/data/train.de.xz \
    --dev-source carry/data/dev.en.xz --dev-target carry/data/dev.de.xz --out $out --budgets $budgets --families $families \
    --jobs $jobs --seconds $left "$@" > $OUT/$name.log 2>&1
}
send() {  # what there is, to $OUT
  cp $out/record.jsonl $OUT/ 2>/dev/null
  tar -C $out -cJf $OUT/.outputs outputs 2>/dev/null && mv $OUT/.outputs $OUT/outputs.tar.xz
  (cd $out && tar -cJf $OUT/.logs runs/*/metrics.jsonl runs/*/recipe.toml 2>/dev/null; mv $OUT/.logs $OUT/logs.tar.xz)
}
(while sleep 45; do send; done) &
sender=$!
(while sleep 10; do nvidia-smi --query-gpu=utilization.gpu,memory.used --format=csv,noheader; done) > $OUT/gpu.log &
meter=$!
CUDA_MPS_PIPE_DIRECTORY=$mps run parallel $jobs $((seconds * ${PARALLEL:-60} / 100)) ${FAMILIES:-transformer-base,transformer-small,convs2s,bytenet,experts,decoder-only} "$@"
run recurrent 2 $seconds lstm-attention,gnmt,lstm,rnn "$@"
kill $sender $meter
python3 -m harken table2 --out $out --budgets $budgets --render "$@" > $OUT/table.txt 2>&1
send
grep -h "seed" $OUT/parallel.log $OUT/recurrent.log | tail -60
cat $OUT/table.txt
ls -la $OUT
