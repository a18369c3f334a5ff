/* Channels carry the input and output of processes and connections within windows. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "helper.h"

struct channel *channels;

long long now_ms(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

struct channel *add_channel(uint32_t id, int kind) {
	struct channel *channel = calloc(1, sizeof *channel);
	if (!channel) abort();
	channel->id = id;
	channel->kind = kind;
	channel->socket = channel->in = channel->out[0] = channel->out[1] = -1;
	channel->next = channels;
	channels = channel;
	return channel;
}

struct channel *find_channel(uint32_t id) {
	for (struct channel *channel = channels; channel; channel = channel->next)
		if (channel->id == id && !channel->is_dead) return channel;
	return NULL;
}

static void close_input(struct channel *channel) {
	/* Input without a reader counts as passed on, so that the sender does not wait. */
	if (buffer_length(&channel->pending) > 0)
		send_number(TAKEN, channel->id, buffer_length(&channel->pending));
	buffer_free(&channel->pending);
	if (channel->in < 0) return;
	if (channel->kind == CONNECTION) shutdown(channel->in, SHUT_WR);
	else close(channel->in);
	channel->in = -1;
	settle(channel);
}

void take_input(struct channel *channel, const unsigned char *bytes, size_t count) {
	if (channel->in < 0 || channel->is_finishing) {
		send_number(TAKEN, channel->id, count);
		return;
	}
	buffer_add(&channel->pending, bytes, count);
	if (!channel->is_opening) write_pending(channel);
}

void finish_input(struct channel *channel) {
	channel->is_finishing = true;
	if (!channel->is_opening && buffer_length(&channel->pending) == 0) close_input(channel);
}

void write_pending(struct channel *channel) {
	struct buffer *pending = &channel->pending;
	while (channel->in >= 0 && buffer_length(pending) > 0) {
		ssize_t count = write(channel->in, pending->data + pending->start, buffer_length(pending));
		if (count < 0 && errno == EINTR) continue;
		if (count < 0 && errno == EAGAIN) return;
		if (count < 0) {
			close_input(channel);
			return;
		}
		buffer_drop(pending, count);
		send_number(TAKEN, channel->id, count);
	}
	if (channel->is_finishing) close_input(channel);
}

static void end_stream(struct channel *channel, int stream) {
	unsigned char number = stream;
	if (channel->kind == CONNECTION) shutdown(channel->out[stream], SHUT_RD);
	else close(channel->out[stream]);
	channel->out[stream] = -1;
	send_frame(ENDED, channel->id, &number, 1);
}

void read_output(struct channel *channel, int stream) {
	unsigned char piece[1 + PIECE_BYTES];
	size_t most = channel->allowed[stream] < PIECE_BYTES ? channel->allowed[stream] : PIECE_BYTES;
	if (channel->has_exited && !channel->has_terminal && (long)most > channel->left[stream])
		most = channel->left[stream];
	if (most == 0) return settle(channel);
	ssize_t count = read(channel->out[stream], piece + 1, most);
	if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
	if (count > 0) {
		piece[0] = stream;
		channel->allowed[stream] -= count;
		channel->left[stream] -= count;
		channel->ends_at = now_ms() + TERMINAL_REST_MS;
		send_frame(OUTPUT, channel->id, piece, 1 + count);
	} else {
		end_stream(channel, stream);
	}
	settle(channel);
}

void settle(struct channel *channel) {
	if (channel->is_dead) return;
	if (channel->kind == CONNECTION) {
		if (channel->in < 0 && channel->out[0] < 0) close_channel(channel);
		return;
	}
	if (channel->kind != PROCESS || !channel->has_exited) return;
	for (int stream = 0; stream < 2; stream++) {
		if (channel->out[stream] < 0) continue;
		bool rests = channel->has_terminal
			? channel->allowed[stream] == 0 || now_ms() < channel->ends_at
			: channel->left[stream] > 0;
		if (!rests) end_stream(channel, stream);
	}
	if (channel->out[0] >= 0 || channel->out[1] >= 0) return;
	send_number(EXITED, channel->id, channel->code);
	close_channel(channel);
}

void close_channel(struct channel *channel) {
	if (channel->is_dead) return;
	channel->is_dead = true;
	if (channel->kind != PROCESS) {
		close(channel->socket);
	} else {
		if (channel->in >= 0) close(channel->in);
		for (int stream = 0; stream < 2; stream++)
			if (channel->out[stream] >= 0) close(channel->out[stream]);
	}
	buffer_free(&channel->pending);
}

void sweep_channels(void) {
	for (struct channel **link = &channels; *link;) {
		struct channel *channel = *link;
		if (!channel->is_dead) {
			link = &channel->next;
			continue;
		}
		*link = channel->next;
		free(channel);
	}
}
