import { parentPort } from "node:worker_threads";
import { inNetwork, privateNetwork } from "../../../kernel/namespaces.ts";
import { type SocketAnswer, type SocketRequest, socketOf } from "./socket-messages.ts";

/** The thread behind `makeSocket` for a server in a user namespace: it goes from network to network and never comes back to the machine's. */
privateNetwork();

parentPort!.on("message", ({ number, network, kind }: SocketRequest) => {
  let answer: SocketAnswer;
  try {
    answer = { number, fd: inNetwork(network, () => socketOf(kind)) };
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    answer = { number, error: message, code };
  }
  parentPort!.postMessage(answer);
});
