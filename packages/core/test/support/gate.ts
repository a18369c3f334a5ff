import { connect, createServer, type Server, type Socket } from "node:net";

/** A port before a server that can vanish and come back. */
export interface Gate {
  url: string;
  /** Stops listening and cuts open connections. */
  close(): Promise<void>;
  open(): Promise<void>;
  /** Leaves new connections without an answer. */
  hang(): Promise<void>;
  /** Resets new connections and those without an answer. */
  reset(): Promise<void>;
}

/** Handles a new connection. */
type Serve = (socket: Socket) => void;

/** Opens a gate before the server with this address. */
export async function openGate(target: string): Promise<Gate> {
  const { port: targetPort } = new URL(target);
  const sockets = new Set<Socket>();
  let server: Server | undefined;
  let port = 0;
  const keep = (socket: Socket) =>
    sockets.add(socket.on("error", () => {}).on("close", () => sockets.delete(socket)));
  const close = async () => {
    const closed = new Promise<void>((resolve) => (server ? server.close(() => resolve()) : resolve()));
    server = undefined;
    for (const socket of sockets) socket.resetAndDestroy();
    await closed;
  };
  const listen = async (serve: Serve) => {
    await close();
    const opened = createServer((socket) => {
      keep(socket);
      serve(socket);
    });
    server = opened;
    await new Promise<void>((resolve) => opened.listen(port, "127.0.0.1", resolve));
    ({ port } = opened.address() as { port: number });
    gate.url = `http://127.0.0.1:${port}`;
  };
  const gate: Gate = {
    url: "",
    close,
    open: () =>
      listen((socket) => {
        const onward = connect(Number(targetPort), "127.0.0.1");
        keep(onward);
        socket.pipe(onward).pipe(socket);
      }),
    hang: () => listen((socket) => void socket.resume()),
    reset: () => listen((socket) => void socket.resetAndDestroy()),
  };
  await gate.open();
  return gate;
}
