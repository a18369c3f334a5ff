"""Tries system calls that lead out of a sandbox, each with arguments that would do something, in a process of its own.
Writes {name: "worked" | name of the error | "signal N"}."""
import ctypes, errno, json, os, platform, signal, socket, struct, sys

host_pid = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == "aarch64"
numbers = {  # x86-64, arm64
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97), "clone": (56, 220),
    "setns": (308, 268), "ptrace": (101, 117), "process_vm_readv": (310, 270), "kill": (62, 129), "pidfd_open": (434, 434),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "io_setup": (206, 0), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "clock_settime": (227, 112),
    "settimeofday": (164, 170), "clock_adjtime": (305, 266), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "acct": (163, 89), "sethostname": (170, 161), "setdomainname": (171, 162), "syslog": (103, 116), "quotactl": (179, 60),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "fanotify_init": (300, 262), 
    "lookup_dcookie": (212, 18), "memfd_secret": (447, 447), "fsopen": (430, 430), "open_tree": (428, 428), "move_mount": (429, 429),
    "fspick": (433, 433), "mount_setattr": (442, 442), "clone3": (435, 435), 
    "sched_setscheduler": (144, 119), "ioprio_set": (251, 30), "mknodat": (259, 33), "vhangup": (153, 58),
    "setsockopt": (54, 208), "fcntl": (72, 25), "iopl": (172, 0), "ioperm": (173, 0), "kcmp": (312, 272), "nfsservctl": (180, 42), "prlimit64": (302, 261),
}
attacks = {}


def call(name, *arguments):
    number = numbers[name][arm]
    if number == 0:
        raise OSError(errno.ENOSYS, name)
    converted = [a if isinstance(a, (bytes, ctypes.Array, ctypes.Structure)) or a is None else ctypes.c_long(a) for a in arguments]
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *converted)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def attack(name):
    return lambda work: attacks.setdefault(name, work)


def plain(name, *arguments, label=None):
    attacks[label or name] = lambda: call(name, *arguments)


BIND, REC, REMOUNT = 4096, 16384, 32
plain("mount", b"none", b"/tmp", b"tmpfs", 0, None, label="mount tmpfs")
plain("mount", b"proc", b"/tmp", b"proc", 0, None, label="mount proc")
plain("mount", b"sysfs", b"/tmp", b"sysfs", 0, None, label="mount sysfs")
plain("mount", b"/", b"/tmp", None, BIND | REC, None, label="bind the root")
plain("mount", b"/tmp", b"/proc", None, BIND, None, label="bind over proc")
plain("mount", b"none", b"/", None, REMOUNT | BIND, None, label="remount the root")
plain("mount", b"none", b"/usr", None, REMOUNT | BIND, None, label="remount usr for writing")
plain("mount", b"none", b"/proc/sys", None, REMOUNT | BIND, None, label="remount proc/sys for writing")
plain("mount", b"none", b"/tmp", b"overlay", 0, b"lowerdir=/etc,upperdir=/tmp,workdir=/var/tmp", label="mount an overlay")
plain("mount", b"cgroup", b"/tmp", b"cgroup", 0, b"memory", label="mount cgroup v1")
plain("mount", b"cgroup", b"/tmp", b"cgroup2", 0, None, label="mount cgroup v2")
plain("mount", b"none", b"/", None, 1 << 20 | REC, None, label="make the root shared")
for mounted in (b"/proc", b"/usr", b"/proc/sysrq-trigger", b"/etc/hosts"):
    plain("umount2", mounted, 2, label=f"umount {mounted.decode()}")
plain("pivot_root", b"/tmp", b"/tmp")
plain("chroot", b"/tmp")
plain("fsopen", b"tmpfs", 0)
plain("open_tree", -100, b"/", 1 | 0x8000, label="open_tree, cloned")
plain("move_mount", -100, b"/usr", -100, b"/tmp", 0)
plain("fspick", -100, b"/", 0)
plain("mount_setattr", -100, b"/usr", 0, struct.pack("QQQQ", 0, 1, 0, 0), 32)

for flag, name in ((0x20000, "mount"), (0x2000000, "cgroup"), (0x4000000, "uts"), (0x8000000, "ipc"), (0x10000000, "user"), (0x20000000, "pid"), (0x40000000, "net"), (0x80, "time")):
    plain("unshare", flag, label=f"unshare {name}")
    if flag != 0x80:
        attacks[f"clone {name}"] = lambda flag=flag: call("clone", flag | 17, 0, 0, 0, 0) or os._exit(0)
attacks["clone3 user"] = lambda: call("clone3", struct.pack("8Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0), 64) or os._exit(0)
for space in ("mnt", "net", "user", "pid", "cgroup"):
    @attack(f"setns {space} of the first process")
    def _(space=space):
        call("setns", os.open(f"/proc/1/ns/{space}", os.O_RDONLY), 0)

if not arm:
    @attack("unshare user by the 32-bit entry")
    def _():
        import mmap
        code = mmap.mmap(-1, 4096, prot=7)
        #     push rbx; mov ebx,0x10000000; mov eax,310; int 0x80; pop rbx; ret
        code.write(bytes.fromhex("53bb00000010b836010000cd805bc3"))
        entry = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
        result = entry()
        if result < 0:
            raise OSError(-result, "")

    @attack("unshare user by the x32 entry")
    def _():
        if libc.syscall(ctypes.c_long(0x40000000 | 272), ctypes.c_long(0x10000000)) < 0:
            raise OSError(ctypes.get_errno(), "")

for kind, letter in ((0o020000, "character"), (0o060000, "block")):
    for major, minor in ((1, 1), (1, 5), (1, 11), (8, 0), (10, 232), (10, 200), (254, 0)):
        plain("mknodat", -100, f"/tmp/node-{letter}-{major}-{minor}".encode(), kind | 0o666, major << 8 | minor, 0, label=f"mknod {letter} {major}:{minor}")
for device in ("mem", "kmem", "port", "kmsg", "fuse", "kvm", "net/tun", "vda", "sda", "loop-control", "loop0", "mapper/control", "vhost-net", "vsock", "rtc0", "hwrng", "snapshot", "watchdog", "tty0", "tty1", "hpet", "cpu_dma_latency"):
    attacks[f"open /dev/{device}"] = lambda device=device: os.open(f"/dev/{device}", os.O_RDWR)

plain("ptrace", 16, host_pid, 0, 0, label="ptrace the server")
plain("kill", host_pid, 0, label="signal the server")
plain("pidfd_open", host_pid, 0, label="pidfd of the server")
buffer = ctypes.create_string_buffer(64)
vector = struct.pack("QQ", ctypes.addressof(buffer), 64)
plain("process_vm_readv", host_pid, vector, 1, vector, 1, 0, label="memory of the server")
attacks["look at the server"] = lambda: os.listdir(f"/proc/{host_pid}")
plain("kcmp", host_pid, host_pid, 0, 0, 0)
if os.getuid() != 0:
    plain("ptrace", 16, 1, 0, 0, label="ptrace the first process")
    plain("kill", 1, 9, label="kill the first process")

plain("keyctl", 0, -3, 1, label="session key ring")
plain("keyctl", 0, -4, 1, label="key ring of the user")
plain("add_key", b"user", b"x", b"y", 1, -4)
plain("request_key", b"user", b"x", None, -4)
plain("bpf", 0, struct.pack("IIII", 1, 4, 4, 1) + bytes(100), 116)
plain("perf_event_open", struct.pack("IIQ", 1, 112, 0) + bytes(96), 0, -1, -1, 0)
plain("userfaultfd", 1)
plain("io_uring_setup", 4, ctypes.create_string_buffer(120))
plain("io_setup", 16, ctypes.create_string_buffer(8))
plain("kexec_load", 0, 0, None, 0)
plain("kexec_file_load", -1, -1, 0, None, 4)
plain("init_module", b"x" * 64, 64, b"")
plain("finit_module", 0, b"", 0)
plain("delete_module", b"overlay", 0x800)
plain("clock_settime", 0, struct.pack("qq", 1, 0))
plain("settimeofday", struct.pack("qq", 1, 0), None)
plain("clock_adjtime", 0, struct.pack("I", 0x4000) + bytes(204))
plain("reboot", 0xFEE1DEAD, 672274793, 0x01234567)
plain("swapon", b"/tmp", 0)
plain("swapoff", b"/tmp")
plain("acct", None)
plain("sethostname", b"other", 5)
plain("setdomainname", b"other", 5)
plain("syslog", 3, ctypes.create_string_buffer(64), 64)
plain("quotactl", 0x80000100, None, 0, None)
handle = struct.pack("Ii", 8, 1) + struct.pack("II", 2, 0)
plain("open_by_handle_at", os.open("/", os.O_RDONLY), handle, 0)
plain("name_to_handle_at", -100, b"/", ctypes.create_string_buffer(handle, 200), ctypes.create_string_buffer(8), 0)
plain("fanotify_init", 0x4, 0, label="fanotify_init with content")
plain("lookup_dcookie", 0, ctypes.create_string_buffer(64), 64)
plain("memfd_secret", 0)
plain("vhangup")
plain("nfsservctl", 0, None, None)
if not arm:
    plain("iopl", 3)
    plain("ioperm", 0x80, 1, 1)
plain("sched_setscheduler", 0, 1, struct.pack("i", 50), label="real time priority")
plain("ioprio_set", 1, 0, 1 << 13, label="real time disk priority")
attacks["priority above others"] = lambda: os.setpriority(os.PRIO_PROCESS, 0, -10)
plain("prlimit64", 0, 7, struct.pack("QQ", 1 << 20, 1 << 20), None, label="more open files")
plain("prlimit64", 0, 4, struct.pack("QQ", 1 << 20, 1 << 20), None, label="core files")
if os.getuid() != 0:
    attacks["another user"] = lambda: os.setuid(0)
    attacks["another group"] = lambda: os.setgid(0)
else:
    attacks["another user"] = lambda: os.setuid(1000)
attacks["other groups"] = lambda: os.setgroups([0, 6, 27])
attacks["lower oom score"] = lambda: os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"-500")

for family in range(3, 48):
    if family not in (socket.AF_INET6, socket.AF_NETLINK):
        attacks[f"socket of family {family}"] = lambda family=family: socket.socket(family, socket.SOCK_DGRAM)
        attacks[f"raw socket of family {family}"] = lambda family=family: socket.socket(family, socket.SOCK_RAW, 3)
for family in (socket.AF_INET, socket.AF_INET6):
    for protocol in (1, 6, 255):
        attacks[f"raw IP socket {family} {protocol}"] = lambda family=family, protocol=protocol: socket.socket(family, socket.SOCK_RAW, protocol)
for protocol in range(1, 23):
    attacks[f"netlink {protocol}"] = lambda protocol=protocol: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
for protocol in (2, 33, 41, 47, 132, 136):
    attacks[f"IP protocol {protocol}"] = lambda protocol=protocol: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, protocol)
for option in (26, 50, 51, 52):
    for bits in (0, 1 << 32):
        attacks[f"filter of a socket {option} {bits}"] = lambda option=option, bits=bits: call(
            "setsockopt", socket.socket().detach(), 1 | bits << 1, option | bits, bytes(16), 16)
for command in (36, 37, 38):
    attacks[f"lock of a descriptor {command}"] = lambda command=command: call(
        "fcntl", os.open("/tmp", os.O_RDONLY), command | 1 << 32, bytes(32))


def netlink(kind, flags, payload):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.sendto(struct.pack("IHHII", 16 + len(payload), kind, flags | 5, 1, 0) + payload, (0, 0))
    answer = s.recv(4096)
    if struct.unpack_from("H", answer, 4)[0] == 2:
        code = struct.unpack_from("i", answer, 16)[0]
        if code < 0:
            raise OSError(-code, "")


CREATE = 0x600
attribute = lambda kind, value: struct.pack("HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)
attacks["netlink: new route"] = lambda: netlink(24, CREATE, struct.pack("BBBBBBBBI", 2, 0, 0, 0, 254, 3, 0, 1, 0) + attribute(4, struct.pack("i", 1)))
attacks["netlink: new address"] = lambda: netlink(20, CREATE, struct.pack("BBBBi", 2, 24, 0, 0, 1) + attribute(2, bytes([192, 0, 2, 2])))
attacks["netlink: new interface"] = lambda: netlink(16, CREATE, struct.pack("BxHiII", 0, 0, 0, 1, 1) + attribute(18, attribute(1, b"dummy\0")))
attacks["netlink: loopback down"] = lambda: netlink(16, 0, struct.pack("BxHiII", 0, 0, 1, 0, 1))


@attack("interface flags by ioctl")
def _():
    import fcntl
    fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sH22x", b"lo", 0))


@attack("new route by ioctl")
def _():
    import fcntl
    address = struct.pack("HH4s8x", 2, 0, bytes(4))
    fcntl.ioctl(socket.socket(), 0x890B, struct.pack("Q", 0) + address * 3 + struct.pack("H", 1) + bytes(62))


results = {}
for name, work in attacks.items():
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        try:
            work()
            os.write(write, b"worked")
        except OSError as error:
            os.write(write, errno.errorcode.get(error.errno, str(error.errno)).encode())
        except BaseException as error:
            os.write(write, repr(error).encode())
        os._exit(0)
    os.close(write)
    results[name] = os.read(read, 200).decode()
    _, status = os.waitpid(child, 0)
    if not results[name]:
        results[name] = f"signal {status & 127}" if status & 127 else "ended"
    os.close(read)
print(json.dumps(results))
