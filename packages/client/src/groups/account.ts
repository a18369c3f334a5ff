import { type CallOptions, path } from "../connection.ts";
import type {
  ApiKey,
  ApiKeyRequest,
  Behaviour,
  CurrentApiKey,
  LoginAnswer,
  NewApiKey,
  Success,
  UserInfo,
} from "../types.ts";
import { Group } from "./group.ts";

/** The user behind the key, and the login of a browser. */
export class Account extends Group {
  /** The user and the user's settings. */
  get(options?: CallOptions): Promise<UserInfo> {
    return this.connection.get("/api/v1/users/me", {}, options);
  }

  /** Exchanges an API key for a cookie, which the browser sends from then on. */
  logIn(key: string, options?: CallOptions): Promise<LoginAnswer> {
    return this.connection.post("/login", { key }, options);
  }

  /** Ends the login of the browser. */
  logOut(options?: CallOptions): Promise<Success> {
    return this.connection.post("/logout", undefined, options);
  }
}

/** API keys of the user. */
export class Keys extends Group {
  list(options?: CallOptions): Promise<ApiKey[]> {
    return this.connection.get("/api/keys", {}, options);
  }

  /** Makes a key; only this answer has its text. */
  create(request: ApiKeyRequest, options?: CallOptions): Promise<NewApiKey> {
    return this.connection.post("/api/keys", request, options);
  }

  /** Revokes a key, and ends what uses it. */
  delete(id: string, options?: CallOptions): Promise<Success> {
    return this.connection.json("DELETE", path`/api/keys/${id}`, options);
  }

  /** The key of this client. */
  current(options?: CallOptions): Promise<CurrentApiKey> {
    return this.connection.get("/api/keys/current", {}, options);
  }
}

/** What projects do by themselves, such as scripts and hooks, and what the user accepted of it. */
export class Behaviours extends Group {
  list(query?: { sandbox_id?: string }, options?: CallOptions): Promise<Behaviour[]> {
    return this.connection.get("/api/v1/behaviours", { ...query }, options);
  }

  get(digest: string, options?: CallOptions): Promise<Behaviour> {
    return this.connection.get(path`/api/v1/behaviours/${digest}`, {}, options);
  }

  accept(digest: string, options?: CallOptions): Promise<Behaviour> {
    return this.connection.json("PUT", path`/api/v1/behaviours/${digest}/acceptance`, options);
  }

  revoke(digest: string, options?: CallOptions): Promise<Success> {
    return this.connection.json("DELETE", path`/api/v1/behaviours/${digest}/acceptance`, options);
  }
}
