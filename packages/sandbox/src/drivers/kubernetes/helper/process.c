/* Runs commands as new processes with pipes or a terminal. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "helper.h"

/* The fields of a RUN frame. Each text ends with NUL. */
struct command {
	bool has_terminal;
	uint16_t columns, rows;
	const char *folder;
	char **arguments, **environment;
};

static bool parse_command(const unsigned char *payload, size_t count, struct command *command) {
	if (count < 14 || payload[count - 1] != 0) return false;
	*command = (struct command){payload[0] & 1, get16(payload + 1), get16(payload + 3), 0, 0, 0};
	uint32_t arguments = get32(payload + 5), environment = get32(payload + 9);
	if (arguments == 0 || arguments > count || environment > count) return false;
	char **texts = calloc(arguments + environment + 2, sizeof *texts);
	if (!texts) return false;
	const char *text = (const char *)payload + 13, *end = (const char *)payload + count;
	command->folder = text;
	command->arguments = texts;
	command->environment = texts + arguments + 1;
	text += strlen(text) + 1;
	for (uint32_t at = 0; at < arguments + environment; at++, text += strlen(text) + 1) {
		if (text >= end) {
			free(texts);
			return false;
		}
		texts[at < arguments ? at : at + 1] = (char *)text;
	}
	return true;
}

static int open_terminal(const struct command *command, const struct identity *who, char *name, size_t size) {
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (master < 0) return -1;
	if (unlockpt(master) != 0 || ptsname_r(master, name, size) != 0) {
		close(master);
		return -1;
	}
	struct winsize window = {command->rows, command->columns, 0, 0};
	ioctl(master, TIOCSWINSZ, &window);
	if (chown(name, who->uid, -1) != 0 && geteuid() == 0) { /* The terminal belongs to root. */ }
	return master;
}

/* Arguments: descriptor, columns, rows. */
int unlock_terminal(int argc, char **argv) {
	if (argc < 3) return 2;
	int master = atoi(argv[0]);
	struct winsize window = {atoi(argv[2]), atoi(argv[1]), 0, 0};
	char name[64];
	if (unlockpt(master) != 0 || ptsname_r(master, name, sizeof name) != 0) return 1;
	ioctl(master, TIOCSWINSZ, &window);
	printf("%s\n", name);
	return fflush(stdout) == 0 ? 0 : 1;
}

static const char *find_variable(char **environment, const char *name) {
	size_t length = strlen(name);
	for (; *environment; environment++)
		if (!strncmp(*environment, name, length) && (*environment)[length] == '=') return *environment + length + 1;
	return NULL;
}

int execute(char **arguments, char **environment, const char *path) {
	const char *program = arguments[0];
	int error = ENOENT;
	if (strchr(program, '/') || !*program) {
		execve(program, arguments, environment);
		error = *program ? errno : ENOENT;
	} else {
		for (const char *at = path ? path : "/usr/bin:/bin";; at++) {
			const char *end = strchrnul(at, ':');
			char candidate[4096];
			int length = snprintf(candidate, sizeof candidate, "%.*s%s%s", (int)(end - at), at, end > at ? "/" : "./", program);
			if (length < (int)sizeof candidate) execve(candidate, arguments, environment);
			if (errno != ENOENT && errno != ENOTDIR) error = errno;
			if (!*end) break;
			at = end;
		}
	}
	dprintf(2, "%s: %s\n", program, error == ENOENT ? "not found" : strerror(error));
	return error == ENOENT ? 127 : 126;
}

static void run_child(const struct command *command, const struct identity *who, int ends[3], const char *terminal) {
	setsid();
	if (terminal) {
		int slave = open(terminal, O_RDWR);
		if (slave < 0 || ioctl(slave, TIOCSCTTY, 0) != 0) _exit(126);
		ends[0] = ends[1] = ends[2] = slave;
	}
	for (int fd = 0; fd < 3; fd++)
		if (dup2(ends[fd], fd) < 0) _exit(126);
	close_range(3, ~0U, 0);
	for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
	become(who);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (chdir(command->folder) != 0) {
		dprintf(2, "%s: %s\n", command->folder, strerror(errno));
		_exit(126);
	}
	_exit(execute(command->arguments, command->environment, find_variable(command->environment, "PATH")));
}

void run_command(uint32_t id, const struct identity *who, const unsigned char *payload, size_t count) {
	struct command command;
	int inside[3] = {-1, -1, -1}, outside[3] = {-1, -1, -1};
	char terminal[64];
	if (!parse_command(payload, count, &command)) return send_failure(id, EINVAL);
	if (command.has_terminal) {
		int master = open_terminal(&command, who, terminal, sizeof terminal);
		if (master < 0) goto failed;
		outside[1] = master;
		outside[0] = fcntl(master, F_DUPFD_CLOEXEC, 3);
	} else {
		for (int fd = 0; fd < 3; fd++) {
			int ends[2];
			if (pipe2(ends, O_CLOEXEC) != 0) goto failed;
			inside[fd] = ends[fd == 0 ? 0 : 1];
			outside[fd] = ends[fd == 0 ? 1 : 0];
			fcntl(outside[fd], F_SETFL, O_NONBLOCK);
		}
	}
	/* All signals are blocked here, so that a signal before the start reaches the command. */
	pid_t pid = fork();
	if (pid < 0) goto failed;
	if (pid == 0) run_child(&command, who, inside, command.has_terminal ? terminal : NULL);
	struct channel *channel = add_channel(id, PROCESS);
	channel->pid = pid;
	channel->has_terminal = command.has_terminal;
	channel->in = outside[0];
	channel->out[0] = outside[1];
	channel->out[1] = outside[2];
	if (command.has_terminal) {
		unsigned char second = 1;
		send_frame(ENDED, id, &second, 1);
	}
	for (int fd = 0; fd < 3; fd++)
		if (inside[fd] >= 0) close(inside[fd]);
	free(command.arguments);
	return;
failed:
	send_failure(id, errno);
	for (int fd = 0; fd < 3; fd++) {
		if (inside[fd] >= 0) close(inside[fd]);
		if (outside[fd] >= 0) close(outside[fd]);
	}
	free(command.arguments);
}

void reap_children(void) {
	int status;
	for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
		for (struct channel *channel = channels; channel; channel = channel->next) {
			if (channel->kind != PROCESS || channel->pid != pid || channel->has_exited) continue;
			channel->has_exited = true;
			channel->code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
			channel->ends_at = now_ms() + TERMINAL_REST_MS;
			for (int stream = 0; stream < 2; stream++) {
				int bytes = 0;
				if (channel->out[stream] >= 0) ioctl(channel->out[stream], FIONREAD, &bytes);
				channel->left[stream] = bytes;
			}
			settle(channel);
			break;
		}
	}
}

void signal_command(struct channel *channel, int number) {
	if (channel->kind != PROCESS || channel->has_exited) return;
	/* A command leads its session and process group. */
	if (number != SIGKILL || kill(-channel->pid, number) != 0) kill(channel->pid, number);
}

void resize_command(struct channel *channel, uint16_t columns, uint16_t rows) {
	struct winsize window = {rows, columns, 0, 0};
	if (channel->has_terminal && channel->out[0] >= 0) ioctl(channel->out[0], TIOCSWINSZ, &window);
}
