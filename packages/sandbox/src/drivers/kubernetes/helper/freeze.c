/*
 * Stops and continues all processes but the helper's own. A parent stops before its children and
 * goes on after them, so that no shell notices that its commands were stopped.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "helper.h"

enum { MAX_PROCESSES = 65536, MAX_PASSES = 200, PAUSE_US = 5000, STOPPING_MS = 3000 };

struct process {
	pid_t pid, parent;
	int depth;
	char state;
};

static bool read_process(pid_t pid, struct process *process) {
	char path[64], text[1024];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	FILE *file = fopen(path, "re");
	if (!file) return false;
	size_t length = fread(text, 1, sizeof text - 1, file);
	fclose(file);
	text[length] = 0;
	char *name_end = strrchr(text, ')');
	*process = (struct process){.pid = pid};
	return name_end && sscanf(name_end + 1, " %c %d", &process->state, &process->parent) == 2;
}

static bool is_helper(pid_t pid) {
	char path[64], own[256], other[256];
	snprintf(path, sizeof path, "/proc/%d/exe", pid);
	ssize_t length = readlink("/proc/self/exe", own, sizeof own);
	return pid == 1 || pid == getpid() ||
	       (length > 0 && readlink(path, other, sizeof other) == length && !memcmp(own, other, length));
}

static int by_depth(const void *one, const void *other) {
	return ((const struct process *)one)->depth - ((const struct process *)other)->depth;
}

/* Lists the processes, parents first. */
static size_t list_processes(struct process **list) {
	size_t count = 0, room = 256;
	struct process *all = malloc(room * sizeof *all);
	DIR *folder = opendir("/proc");
	for (struct dirent *entry; all && folder && (entry = readdir(folder)) && count < MAX_PROCESSES;) {
		pid_t pid = atoi(entry->d_name);
		if (pid <= 0 || is_helper(pid)) continue;
		if (count == room && !(all = realloc(all, (room *= 2) * sizeof *all))) abort();
		if (read_process(pid, &all[count]) && all[count].state != 'Z' && all[count].state != 'X') count++;
	}
	if (folder) closedir(folder);
	for (bool changed = true; changed;) {
		changed = false;
		for (size_t at = 0; at < count; at++)
			for (size_t other = 0; other < count; other++)
				if (all[at].parent == all[other].pid && all[at].depth <= all[other].depth && all[other].depth < 1000) {
					all[at].depth = all[other].depth + 1;
					changed = true;
				}
	}
	if (count > 0) qsort(all, count, sizeof *all, by_depth);
	*list = all;
	return count;
}

int freeze_all(void) {
	long long end = now_ms() + STOPPING_MS;
	/* A process that starts meanwhile is found by a later pass. */
	for (int pass = 0; pass < MAX_PASSES && now_ms() < end; pass++) {
		struct process *list;
		size_t count = list_processes(&list), running = 0;
		for (size_t at = 0; at < count; at++) {
			if (list[at].state == 'T' || list[at].state == 't') continue;
			if (kill(list[at].pid, SIGSTOP) == 0) running++;
		}
		free(list);
		if (running == 0) return 0;
		usleep(pass == 0 ? 500 : PAUSE_US);
	}
	return ETIMEDOUT;
}

int thaw_all(void) {
	struct process *list;
	size_t count = list_processes(&list);
	for (size_t at = count; at-- > 0;) kill(list[at].pid, SIGCONT);
	free(list);
	return 0;
}
