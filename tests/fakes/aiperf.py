"""An executable in aiperf's place that fails in one of the ways in which aiperf can.

What aiperf does when all is well is tried with the real one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

Way = Literal["fails", "hangs", "writes nonsense", "refused", "has no version"]

_SCRIPT = """\
#!{python}
import json, os, signal, subprocess, sys, time
way = {way!r}
if sys.argv[1:] == ["--version"]:
    if way == "has no version":
        sys.exit("ImportError: no module named rich")
    print("0.13.0")
    sys.exit(0)
command, option, file = sys.argv[1:]
wanted = json.load(open(file))["benchmark"]
os.makedirs(wanted["artifacts"]["dir"])
records = os.path.join(wanted["artifacts"]["dir"], "profile_export.jsonl")
open({seen!r}, "w").write(json.dumps({{"arguments": sys.argv, "environment": dict(os.environ), "wanted": wanted}}))
if way == "fails":
    print("╭─ Error ──╮\\n│ no such tokenizer │\\n╰──────────╯")
    sys.exit(1)
if way == "hangs":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    open({seen!r} + ".child", "w").write(str(child.pid))
    time.sleep(600)
if way == "writes nonsense":
    open(records, "w").write('{{"metadata": {{}}}}\\n')
if way == "refused":
    message = json.dumps({{"error": {{"message": "max_tokens=5000 is too large"}}}})
    row = {{"metadata": {{"benchmark_phase": "profiling", "request_start_ns": 1}}, "metrics": {{}},
           "error": {{"code": 400, "type": "Bad Request", "message": message}}}}
    open(records, "w").write(json.dumps(row) + "\\n")
"""


def write_aiperf(folder: Path, way: Way) -> Path:
    """Write the executable; it leaves what it was given in `seen.json` beside it, its child's number in `seen.json.child`."""
    folder.mkdir(parents=True, exist_ok=True)
    executable = folder / "aiperf"
    executable.write_text(_SCRIPT.format(python=sys.executable, way=way, seen=str(folder / "seen.json")))
    executable.chmod(0o755)
    return executable
