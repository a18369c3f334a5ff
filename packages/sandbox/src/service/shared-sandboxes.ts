/** The part of a server in the sandboxes that several servers share. */
export interface SharedSandboxes {
  /** Notes that this server is the first owner of a sandbox, which it creates. */
  noteCreated(id: string): void;
  /** Notes that a sandbox is gone. */
  noteRemoved(id: string): void;
}
