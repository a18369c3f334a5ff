"""Runs checks in this process and prints one JSON object a line: each check when it begins, and its result."""

import json
import re
import runpy
import sys
import time
import traceback
from pathlib import Path

import openhands.sdk

# Loaded before the first check, whose time does not count it.
import support  # noqa: F401

out = sys.stdout
sys.stdout = sys.stderr


def say(**what):
    out.write(json.dumps(what) + "\n")
    out.flush()


def number(version):
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


say(version=openhands.sdk.__version__)
for path in sys.argv[1:]:
    name = Path(path).stem
    text = Path(path).read_text()
    since = re.search(r"^# since: (\S+)", text, re.M)
    say(begins=name)
    began = time.monotonic()
    if since and number(openhands.sdk.__version__) < number(since[1]):
        say(check=name, result="absent", detail=f"since SDK {since[1]}", seconds=0)
        continue
    try:
        runpy.run_path(path)
        result, detail = "passed", ""
    except BaseException as error:  # a script may exit
        frame = traceback.extract_tb(error.__traceback__)[-1]
        result, detail = "failed", f"{type(error).__name__}: {str(error) or frame.line}"
        traceback.print_exc()
    say(check=name, result=result, detail=detail[:600], seconds=round(time.monotonic() - began, 2))
say(ends=True)
