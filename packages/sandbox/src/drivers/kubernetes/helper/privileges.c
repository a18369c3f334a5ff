/* Sets the rights of commands: the rights of their user, within the capabilities of the spec. */
#define _GNU_SOURCE
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "helper.h"

enum { LAST_CAPABILITY = 63, OPEN_FILES = 16384, PENDING_SIGNALS = 2048, QUEUE_BYTES = 819200 };

void limit_privileges(const struct identity *who) {
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	for (int one = 0; one <= LAST_CAPABILITY; one++)
		if (!(who->capabilities >> one & 1)) prctl(PR_CAPBSET_DROP, one, 0, 0, 0);
}

static void set_capabilities(uint64_t capabilities) {
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2] = {
		{capabilities, capabilities, 0},
		{capabilities >> 32, capabilities >> 32, 0},
	};
	syscall(SYS_capset, &header, data);
}

/* Lowers a limit. Never raises the limit of the container. */
static void set_limit(int resource, rlim_t most) {
	struct rlimit old;
	if (getrlimit(resource, &old) != 0) return;
	if (old.rlim_max != RLIM_INFINITY && old.rlim_max < most) most = old.rlim_max;
	struct rlimit limit = {most, most};
	setrlimit(resource, &limit);
}

static void change_user(const struct identity *who) {
	if (setgroups(0, NULL) == 0 && setresgid(who->gid, who->gid, who->gid) == 0 &&
	    setresuid(who->uid, who->uid, who->uid) == 0)
		return;
	/* The calls fail in a container that runs as the user already. */
	if (geteuid() == 0 && (who->uid != 0 || who->gid != getegid())) _exit(126);
}

void become(const struct identity *who) {
	set_limit(RLIMIT_CORE, 0);
	set_limit(RLIMIT_NOFILE, OPEN_FILES);
	set_limit(RLIMIT_SIGPENDING, PENDING_SIGNALS);
	set_limit(RLIMIT_MSGQUEUE, QUEUE_BYTES);
	if (who->processes > 0) set_limit(RLIMIT_NPROC, who->processes);
	change_user(who);
	set_capabilities(who->uid == 0 ? who->capabilities : 0);
	if (who->capabilities == 0) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

void become_powerless(const struct identity *who) {
	change_user(who);
	set_capabilities(0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}
