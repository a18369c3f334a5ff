/** The sandboxes whose conversations are meant, by their ids. */
export type SandboxScope = "all" | readonly string[];
