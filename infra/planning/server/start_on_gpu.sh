# Runs the server's command on the CUDA driver library that fits the driver of the host, which nobody knows before the
# container starts. `bash -c` gets this text and then: auto | always | never, the file in which the host tells its
# driver, the image's folder of compatibility libraries, the host's folder of driver libraries, and the command.
#
# A compatibility library serves drivers from 535 to its own branch; on a newer driver CUDA ends with error 803. Only
# branches are compared, since within one of them the host's own library does as well.
oldest=535
choice=$1 driver_file=$2 compat=$3 host=$4
shift 4

say() { printf 'start_on_gpu (serving.cudaCompatibility: %s): %s\n' "$choice" "$1" >&2; }

first() { export LD_LIBRARY_PATH="$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"; }

# Sets `branch` from the first line of a text on standard input; empty where no version stands in it.
read_branch() {
  branch='' line=''
  read -r line
  if [[ $line =~ (^|[[:space:]])([0-9]{3,})\.[0-9]+(\.[0-9]+)?([[:space:]]|$) ]]; then branch=${BASH_REMATCH[2]}; fi
}

# Sets `branch` from the file name of the driver library in a folder; empty where there is none.
library_branch() {
  branch=''
  for file in "$1"/libcuda.so.*; do
    if [[ $file =~ /libcuda\.so\.([0-9]{3,})\.[0-9.]+$ && -r $file ]]; then branch=${BASH_REMATCH[1]}; fi
  done
}

library_branch "$compat"
library=$branch
branch=''
if [[ -r $driver_file ]]; then read_branch <"$driver_file"; fi
if [[ ! $branch ]]; then library_branch "$host"; fi
if [[ ! $branch ]]; then read_branch < <(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null); fi
driver=$branch

use=image
case $choice in
  always) if [[ $library ]]; then use=compat; fi ;;
  never) use=host ;;
  *) if [[ $driver && $library ]]; then
    if ((driver >= library)); then use=host; elif ((driver >= oldest)); then use=compat; fi
  fi ;;
esac

found="the host's driver is ${driver:-unknown}, the image's compatibility library ${library:-missing}"
case $use in
  compat)
    say "$found: the compatibility library comes first"
    first "$compat"
    export VLLM_ENABLE_CUDA_COMPATIBILITY=0 ;;
  host)
    say "$found: the host's library comes first"
    if [[ -e $host/libcuda.so.1 ]]; then first "$host"; fi
    export VLLM_ENABLE_CUDA_COMPATIBILITY=0 ;;
  image)
    say "$found: the image decides" ;;
esac
exec "$@"
