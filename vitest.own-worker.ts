/**
 * Files with a worker of their own: they measure memory, descriptors or response times of their
 * process, replace a module, or load the released client, which looks up WebSocket at import time.
 */
export const ownWorker = [
  "packages/server/test/isolation/*.test.ts",
  "packages/server/src/http/sockets/faults.test.ts",
  "packages/server/src/http/server/unknown-settings.test.ts",
  "packages/server/test/outbound.test.ts",
  "packages/sandbox/src/drivers/{oci/oci-driver,common/ports}.test.ts",
  "packages/sandbox/src/drivers/oci/warm-shell/warm-shell.test.ts",
  "packages/sandbox/src/network/proxy/egress-{proxy,rules,tls}.test.ts",
  "packages/server/test/{bash,bash-socket,released-client,terminal}.test.ts",
  "packages/server/test/agent-server/typescript-client.test.ts",
];
