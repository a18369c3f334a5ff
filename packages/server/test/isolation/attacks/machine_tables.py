"""Takes as much as it gets of what the machine has only so many of, and holds it. Writes {name: count} and waits for the end of stdin."""
import ctypes, json, os, resource, socket, sys

resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
libc = ctypes.CDLL(None, use_errno=True)
held = []


def inotify():
    result = libc.inotify_init1(0)
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def take(work, most):
    count = 0
    try:
        while count < most:
            held.append(work())
            count += 1
    except OSError:
        pass
    return count


print(json.dumps({"terminals": take(lambda: os.open("/dev/ptmx", os.O_RDWR), 5000), "watches": take(inotify, 5000)}), flush=True)
sys.stdin.read()
