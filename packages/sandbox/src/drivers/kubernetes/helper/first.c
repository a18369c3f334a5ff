/*
 * The first process of a pod: prepares the folders of the user, drops every right, reaps, and ends
 * all processes when the cluster asks for it. With a command it ends with that command.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "helper.h"

/* Time for processes to end by themselves, ms. */
enum { GRACE_MS = 1000, LOOK_US = 10000 };

extern char **environ;

/* Whether processes other than the helper's own run. Zombies do not count. */
static bool has_processes(void) {
	DIR *folder = opendir("/proc");
	bool found = false;
	for (struct dirent *entry; folder && !found && (entry = readdir(folder));) {
		char path[300], text[256] = "";
		if (atoi(entry->d_name) < 2) continue;
		snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t length = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
		if (fd >= 0) close(fd);
		text[length > 0 ? length : 0] = 0;
		const char *name_end = strrchr(text, ')');
		/* A process that takes the helper's name only shortens its own time. */
		found = name_end && !strchr("ZX", name_end[2]) && !strstr(text, "(" RESIDENT_NAME ")");
	}
	if (folder) closedir(folder);
	return found;
}

static int terminate_all(void) {
	long long end = now_ms() + GRACE_MS;
	kill(-1, SIGTERM);
	kill(-1, SIGCONT);
	while (now_ms() < end) {
		while (waitpid(-1, NULL, WNOHANG) > 0) {}
		if (!has_processes()) break;
		usleep(LOOK_US);
	}
	/* The kernel kills the remaining processes when this process ends. */
	return 0;
}

static pid_t start_command(char **command, const struct identity *who, const char *folder, int report) {
	pid_t pid = fork();
	if (pid != 0) return pid;
	setsid();
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	become(who);
	if (chdir(folder) != 0) _exit(126);
	int output = dup(2);
	if (report >= 0) dup2(report, 2);
	fcntl(output, F_SETFD, FD_CLOEXEC);
	/* A failure before the command runs goes to the report. The command has its own output. */
	const char *path = getenv("PATH");
	const char *found = NULL;
	char candidate[4096];
	if (!strchr(command[0], '/') && path) {
		for (const char *at = path; *at && !found;) {
			const char *end = strchrnul(at, ':');
			snprintf(candidate, sizeof candidate, "%.*s/%s", (int)(end - at), at, command[0]);
			if (access(candidate, X_OK) == 0) found = candidate;
			at = *end ? end + 1 : end;
		}
	}
	if (found || (strchr(command[0], '/') && access(command[0], X_OK) == 0)) {
		dup2(output, 2);
		if (found) command[0] = strdup(found);
	}
	_exit(execute(command, environ, path));
}

/* Arguments: uid, gid, capabilities, processes, folder, home, then the command. */
int first(int argc, char **argv) {
	if (argc < 6) return 2;
	struct identity who = {atoi(argv[0]), atoi(argv[1]), strtoull(argv[2], NULL, 10), strtoul(argv[3], NULL, 10)};
	const char *folder = argv[4], *home = argv[5];
	prctl(PR_SET_NAME, "sandpiper-first");
	umask(022);
	int report = open("/dev/termination-log", O_WRONLY | O_APPEND | O_CLOEXEC);
	if (geteuid() == 0) {
		int error = join_programs();
		if (!error) error = make_own_folder(folder, who.uid, who.gid);
		if (!error) error = make_own_folder(home, who.uid, who.gid);
		if (error) {
			dprintf(report, "%s: %s", folder, strerror(error));
			return 126;
		}
	}
	sigset_t wanted;
	sigfillset(&wanted);
	sigprocmask(SIG_SETMASK, &wanted, NULL);
	limit_privileges(&who);
	pid_t command = argc > 6 ? start_command(argv + 6, &who, folder, report) : -1;
	become_powerless(&who);
	if (report >= 0) close(report);
	for (;;) {
		siginfo_t info;
		int number = sigwaitinfo(&wanted, &info);
		if (number == SIGCHLD || number < 0) {
			int status;
			for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
				if (pid == command) return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
		} else if (number == SIGTERM && info.si_pid == 0) {
			/*
			 * The signal comes from outside of the pod. Processes inside cannot end the pod with
			 * one.
			 */
			return terminate_all();
		}
	}
}
