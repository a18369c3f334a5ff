/** Notes which sandboxes of a shared store this server owns. */
export interface SharedSandboxes {
  /** Notes that this server is the first owner of a sandbox, which it creates. */
  noteCreated(id: string): void;
  /** Notes that a sandbox was removed. */
  noteRemoved(id: string): void;
}
