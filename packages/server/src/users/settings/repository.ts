import { PlatformError } from "@sandpiper/core/errors";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { DocumentStore, StoredDocument } from "../../store/user-store.ts";
import { checkChange, type SettingChecks } from "./checks.ts";
import { type SettingsDocument, upgradeDocument } from "./document.ts";
import { listDocumentSecrets } from "./v1.ts";

/** Maximum length of a stored document, characters of JSON. */
const maxLength = 2 * 1024 * 1024;

const emptyDocument: SettingsDocument = Object.freeze({});

/**
 * The settings documents of all users; the changes of a user come one after another, also those of
 * several servers. A document is the same object until it changes, so derived data can be cached by
 * identity.
 */
export class SettingsRepository {
  readonly #store: DocumentStore;
  readonly #onSecret: (value: string, userId: string) => void;
  readonly #checks: SettingChecks;
  readonly #read = new WeakMap<object, SettingsDocument>();
  readonly #changes = new KeyedMutex();

  /** `onSecret` is called for every secret of a document when it is first read. */
  constructor(
    store: DocumentStore,
    {
      onSecret = () => {},
      checks = { image: () => {}, spec: () => {} },
    }: {
      onSecret?: ((value: string, userId: string) => void) | undefined;
      checks?: SettingChecks | undefined;
    } = {},
  ) {
    this.#store = store;
    this.#onSecret = onSecret;
    this.#checks = checks;
  }

  /** The document of a user; empty when nothing is stored. */
  async get(userId: string): Promise<SettingsDocument> {
    return (await this.find(userId)) ?? emptyDocument;
  }

  /** The document of a user; undefined when nothing is stored. */
  async find(userId: string): Promise<SettingsDocument | undefined> {
    const stored = await this.#store.get(userId);
    return stored && this.#readDocument(stored, userId);
  }

  #readDocument(stored: StoredDocument, userId: string): SettingsDocument {
    let document = this.#read.get(stored);
    if (!document) {
      document = upgradeDocument(stored);
      for (const secret of listDocumentSecrets(document)) this.#onSecret(secret, userId);
      this.#read.set(stored, document);
    }
    return document;
  }

  /**
   * Stores the document that `change` returns and resolves with its `result`. A change that throws
   * stores nothing; it is called again when another server has changed the document. Throws
   * InvalidParameter when the document would be too long, and when a changed value could not be
   * used.
   */
  change<Result>(
    userId: string,
    change: (document: SettingsDocument) => { document: SettingsDocument; result: Result },
  ): Promise<Result> {
    return this.#changes.run(userId, async () => {
      let result: Result;
      await this.#store.change(userId, (stored) => {
        const before = stored ? this.#readDocument(stored, userId) : emptyDocument;
        const changed = change(before);
        checkChange(before, changed.document, this.#checks);
        if (JSON.stringify(changed.document).length > maxLength) throw new PlatformError("SettingsTooLong");
        for (const secret of listDocumentSecrets(changed.document)) this.#onSecret(secret, userId);
        result = changed.result;
        return changed.document as StoredDocument;
      });
      return result!;
    });
  }
}
