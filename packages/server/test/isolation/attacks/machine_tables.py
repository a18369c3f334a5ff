"""Takes as much as it gets of what the machine has only so many of, and holds it. Writes {name: count} and waits for the end of stdin."""
import json, os, resource, sys

resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
held = []


def take(work, most):
    count = 0
    try:
        while count < most:
            held.append(work())
            count += 1
    except OSError:
        pass
    return count


print(json.dumps({"terminals": take(lambda: os.open("/dev/ptmx", os.O_RDWR), 5000)}), flush=True)
sys.stdin.read()
