import { parentPort } from "node:worker_threads";
import { inNetwork, unshareNetwork } from "../../../kernel/namespaces.ts";
import { createSocket, type SocketRequest, type SocketResult } from "./socket-messages.ts";

// The thread behind `openSocket` for a server in a user namespace: it can enter the networks of
// sandboxes, but not return to the machine's.
unshareNetwork();

parentPort!.on("message", ({ number, network, kind }: SocketRequest) => {
  let result: SocketResult;
  try {
    result = { number, fd: inNetwork(network, () => createSocket(kind)) };
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    result = { number, error: message, code };
  }
  parentPort!.postMessage(result);
});
