export type SendFrame = (type: number, payload?: Buffer) => void;

/** The server's side of one channel. */
export interface Channel {
  onFrame(type: number, payload: Buffer): void;
  /** The connection has ended. */
  onLost(): void;
}
