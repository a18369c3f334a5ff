"""Waits for processes that enter the sandbox from outside, and tries to write into their program and their memory before they run their command.
Takes the number of processes after which it ends. Writes what opened."""
import json, os, sys

seen, opened = set(), set()
own = str(os.getpid())
while len(seen) < int(sys.argv[1]):
    for pid in os.listdir("/proc"):
        if not pid.isdigit() or pid == own:
            continue
        seen.add(pid)
        for file in ("exe", "mem"):
            try:
                descriptor = os.open(f"/proc/{pid}/{file}", os.O_RDWR)
                # Only if it is still the runtime after that, it was the runtime's.
                name = open(f"/proc/{pid}/comm").read().strip()
                os.close(descriptor)
                if file == "exe" or name in ("crun", "runc", "runc:[2:INIT]"):
                    opened.add(f"{file} of {name}")
            except OSError:
                pass
print(json.dumps(sorted(opened)))
