import type { Connection } from "../connection.ts";

/** Methods of one subject. All reject with `RequestError`, or with the reason of a signal. */
export abstract class Group {
  protected readonly connection: Connection;

  constructor(connection: Connection) {
    this.connection = connection;
  }
}

/** The part of an answer with a single item that is undefined when there is none. */
export function first<T>([item]: readonly (T | null)[]): T | undefined {
  return item ?? undefined;
}
