import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { endingWith } from "@sandpiper/sandbox/shell/ending-with";
import type { FastifyRequest } from "fastify";

/** The sandbox for a request that reads: its commands end when the client leaves. */
export function endingWithClient(request: FastifyRequest, sandbox: Sandbox): Sandbox {
  // The signal of a request with a body is aborted as soon as the body was read.
  return request.method === "GET" ? endingWith(sandbox, request.signal) : sandbox;
}
