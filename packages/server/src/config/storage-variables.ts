import { type BlobAddress, parseBlobAddress, parseOrigin } from "./blob-address.ts";
import { parseDatabaseUrl } from "./database-source.ts";
import { parseFilePath, parseInteger, parseNodeUrl } from "./value-parsers.ts";
import { defineVariable } from "./variable.ts";
import { parseCommand, parseVaultKey } from "./vault-key-source.ts";

/** Variables of data outside of the data folder: vault key, database and blobs. */
export const storageVariables = {
  vaultKeyFile: defineVariable<string | undefined>({
    name: "SANDPIPER_VAULT_KEY_FILE",
    description: "File with the key that encrypts settings and secrets; it must exist",
    defaultText: "vault.key in the data folder, created at the first start",
    defaultValue: () => undefined,
    must: "the path of a file with 32 bytes, or with their base64 or hexadecimal text",
    parse: parseFilePath,
  }),
  vaultKey: defineVariable<Uint8Array | undefined>({
    name: "SANDPIPER_VAULT_KEY",
    description:
      "The key that encrypts settings and secrets; programs that the server starts do not get the variable",
    defaultText: "none",
    defaultValue: () => undefined,
    must: "32 bytes as base64 or hexadecimal text",
    parse: parseVaultKey,
    secret: true,
  }),
  vaultKeyCommand: defineVariable<string[] | undefined>({
    name: "SANDPIPER_VAULT_KEY_COMMAND",
    description:
      "Command that prints the key that encrypts settings and secrets, such as one of a key management service; no shell reads it",
    defaultText: "none",
    defaultValue: () => undefined,
    must: "words separated by spaces, or a JSON array of words",
    parse: parseCommand,
    secret: true,
  }),
  databaseUrl: defineVariable<string | undefined>({
    name: "SANDPIPER_DATABASE_URL",
    description:
      "Address of the PostgreSQL database that replaces SQLite in the data folder; programs that the server starts do not get the variable",
    defaultText: "SQLite in the data folder",
    defaultValue: () => undefined,
    must: "an address such as postgres://user:password@host/database",
    parse: parseDatabaseUrl,
    secret: true,
  }),
  databaseUrlFile: defineVariable<string | undefined>({
    name: "SANDPIPER_DATABASE_URL_FILE",
    description: "File with the address of the PostgreSQL database",
    defaultText: "none",
    defaultValue: () => undefined,
    must: "the path of a file",
    parse: parseFilePath,
  }),
  nodeUrl: defineVariable<string | undefined>({
    name: "SANDPIPER_NODE_URL",
    description: "Address at which the other servers of the same PostgreSQL database reach this one",
    defaultText: "made from SANDPIPER_HOST and SANDPIPER_PORT, which suffices on one machine",
    defaultValue: () => undefined,
    must: "an address such as http://10.0.0.5:3000",
    parse: parseNodeUrl,
  }),
  nodeLostAfterMs: defineVariable<number>({
    name: "SANDPIPER_NODE_LOST_AFTER",
    description:
      "Seconds without a living server on a machine after which other servers continue its conversations, without the files of its sandboxes",
    defaultText: "60",
    defaultValue: () => 60_000,
    must: "a whole number from 5 to 86400",
    parse: (text) => {
      const seconds = parseInteger(text, 5, 86_400);
      return seconds === undefined ? undefined : seconds * 1000;
    },
  }),
  blobs: defineVariable<BlobAddress | undefined>({
    name: "SANDPIPER_BLOBS",
    description:
      "Place outside of the data folder for copies of snapshots and of hibernated sandboxes, which several servers may share",
    defaultText: "none",
    defaultValue: () => undefined,
    must: "the absolute path of a folder other than /, or s3://bucket or s3://bucket/prefix",
    parse: parseBlobAddress,
  }),
  blobsEndpoint: defineVariable<string | undefined>({
    name: "SANDPIPER_BLOBS_ENDPOINT",
    description: "Address of the S3-compatible server of SANDPIPER_BLOBS",
    defaultText: "that of Amazon for the region",
    defaultValue: () => undefined,
    must: "an http or https address without a path, a user or a password",
    parse: parseOrigin,
  }),
  blobsRegion: defineVariable<string>({
    name: "SANDPIPER_BLOBS_REGION",
    description: "Region of the bucket of SANDPIPER_BLOBS",
    defaultText: "AWS_REGION, else us-east-1",
    defaultValue: (env) => env.AWS_REGION || "us-east-1",
    must: "the name of a region such as eu-central-1",
    parse: (text) => (/^[a-z0-9][a-z0-9-]{0,62}$/.test(text) ? text : undefined),
  }),
  blobsCredentials: defineVariable<string | undefined>({
    name: "SANDPIPER_BLOBS_CREDENTIALS",
    description:
      "File with the credentials for the bucket of SANDPIPER_BLOBS, in the format of ~/.aws/credentials",
    defaultText: "what Amazon's tools would use, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    defaultValue: () => undefined,
    must: "the path of a file",
    parse: parseFilePath,
  }),
} as const;
