/* Buffers, numbers and frames. */
#include <stdlib.h>
#include <string.h>

#include "helper.h"

struct buffer outgoing;

void buffer_add(struct buffer *buffer, const void *bytes, size_t count) {
	if (buffer->end + count > buffer->size) {
		size_t length = buffer_length(buffer);
		if (buffer->start > 0) memmove(buffer->data, buffer->data + buffer->start, length);
		buffer->start = 0;
		buffer->end = length;
		if (length + count > buffer->size) {
			buffer->size = (length + count) * 2;
			buffer->data = realloc(buffer->data, buffer->size);
			if (!buffer->data) abort();
		}
	}
	memcpy(buffer->data + buffer->end, bytes, count);
	buffer->end += count;
}

void buffer_drop(struct buffer *buffer, size_t count) {
	buffer->start += count;
	if (buffer->start < buffer->end) return;
	buffer->start = buffer->end = 0;
	if (buffer->size > 1 << 20) buffer_free(buffer);
}

void buffer_free(struct buffer *buffer) {
	free(buffer->data);
	memset(buffer, 0, sizeof *buffer);
}

uint32_t get16(const unsigned char *bytes) { return (uint32_t)bytes[0] << 8 | bytes[1]; }

uint32_t get32(const unsigned char *bytes) { return get16(bytes) << 16 | get16(bytes + 2); }

void put32(unsigned char *bytes, uint32_t value) {
	for (int at = 0; at < 4; at++) bytes[at] = value >> (24 - 8 * at);
}

void send_frame(enum answer type, uint32_t channel, const void *payload, size_t count) {
	unsigned char header[HEADER_BYTES];
	put32(header, count);
	header[4] = type;
	put32(header + 5, channel);
	buffer_add(&outgoing, header, sizeof header);
	if (count > 0) buffer_add(&outgoing, payload, count);
}

void send_number(enum answer type, uint32_t channel, uint32_t number) {
	unsigned char bytes[4];
	put32(bytes, number);
	send_frame(type, channel, bytes, sizeof bytes);
}

void send_failure(uint32_t channel, int error) {
	const char *message = strerror(error);
	size_t length = strlen(message);
	unsigned char bytes[260];
	put32(bytes, error);
	if (length > 256) length = 256;
	memcpy(bytes + 4, message, length);
	send_frame(FAILED, channel, bytes, 4 + length);
}
