/** Headers in Node's raw form: name, value, name, value, …. */
export type RawHeaders = string[];
