#!/usr/bin/env bash
# Build the wheel, install it into an empty environment, and plan a copy of a stack file in a folder that knows nothing
# of this checkout: the answer must be the checkout's own. Usage: scripts/test_wheel.sh FOLDER_OF_THE_BUILDING_PYTHON
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$(realpath "$1")
place=$(mktemp -d)
trap 'rm -rf "$place" build gemma4.egg-info' EXIT
pip=(-m pip --disable-pip-version-check --quiet)

rm -rf build
"$bin/python" "${pip[@]}" wheel --no-deps --no-build-isolation --wheel-dir "$place" .
"$bin/python" -m venv "$place/empty"
"$place/empty/bin/python" "${pip[@]}" install --no-compile --require-hashes -r requirements.txt
"$place/empty/bin/python" "${pip[@]}" install --no-deps "$place"/gemma4-*.whl

mkdir "$place/stacks"
cp Pulumi.l4.yaml Pulumi.v6e4.yaml "$place/stacks"
for stack in l4 v6e4; do
  "$bin/gemma4" plan "$stack" --json >"$place/expected.json"
  (cd "$place/stacks" && "$place/empty/bin/gemma4" plan "$stack" --json) >"$place/said.json"
  cmp "$place/expected.json" "$place/said.json" || { echo "the wheel plans $stack in another way than the checkout"; exit 1; }
done
(cd "$place" && empty/bin/gemma4 stacks >/dev/null)
packed='import hashlib, runpy, sys; made = runpy.run_path(sys.argv[1]); print([hashlib.sha256(made[name]()).hexdigest() for name in ("supervisor", "stage")])'
[ "$("$bin/python" -c "$packed" containers/archive.py)" = "$("$place/empty/bin/python" -c "$packed" "$place/empty/share/gemma4/containers/archive.py")" ] ||
  { echo "the wheel packs the supervisor or the weights copy in another way than the checkout"; exit 1; }
contents=$("$bin/python" -m zipfile -l "$place"/gemma4-*.whl)
grep -q '^infra/py.typed ' <<<"$contents" || { echo "the wheel lacks infra/py.typed: type checkers would not look into it"; exit 1; }
echo "the wheel, in an empty environment, plans l4 and v6e4 as the checkout does"
