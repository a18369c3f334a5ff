#include <stdio.h>
#include <string.h>

#include "helper.h"

int main(int argc, char **argv) {
	const char *mode = argc > 1 ? argv[1] : "";
	if (!strcmp(mode, "first")) return first(argc - 2, argv + 2);
	if (!strcmp(mode, "resident")) return resident(argc - 2, argv + 2);
	if (!strcmp(mode, "describe")) return describe();
	if (!strcmp(mode, "read")) return read_files(argc - 2, argv + 2);
	if (!strcmp(mode, "measure")) return measure(argc - 2, argv + 2);
	if (!strcmp(mode, "copy")) return copy(argc - 2, argv + 2);
	if (!strcmp(mode, "seed")) return seed(argc - 2, argv + 2);
	if (!strcmp(mode, "unlock")) return unlock_terminal(argc - 2, argv + 2);
	if (!strcmp(mode, "await-seeds")) return await_seeds(argc - 2, argv + 2);
	fprintf(stderr, "usage: helper first | resident | describe | read | measure | copy | seed | await-seeds | unlock\n");
	return 2;
}
