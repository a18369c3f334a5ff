export type SendFrame = (type: number, payload?: Buffer) => void;

/** The server's side of one channel. */
export interface Channel {
  /** Takes a frame from the helper. Throws when the helper breaks the rules of the channel. */
  onFrame(type: number, payload: Buffer): void;
  /** Called when the connection has ended. */
  onLost(): void;
}
