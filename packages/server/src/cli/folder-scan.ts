import type { Dirent } from "node:fs";
import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { isCredentialPath } from "@sandpiper/agent/risk/paths";
import { copiedBytes } from "./pack-sparse.ts";
import { readBeginning } from "./read-beginning.ts";

/** What a folder holds, as far as a copy of it is concerned. */
export interface FolderScan {
  /** Files and links, left out ones not included. */
  files: number;
  /** What a copy of them takes; large holes of files are not copied. */
  bytes: number;
  /** Size of each ignored folder and of each entry of the top level, by relative path. */
  sizes: ReadonlyMap<string, number>;
  /** Relative paths of files that hold keys or passwords and that git does not track. */
  secrets: readonly string[];
  /** Relative paths of Python environments, the first ones. */
  environments: readonly string[];
  /** Relative paths of folders of git: `.git`, and those of repositories without a work tree. */
  repositories: readonly string[];
}

export interface ScanOptions {
  /** Relative paths of files that git tracks. */
  tracked: ReadonlySet<string>;
  /** Relative paths of folders that git ignores. */
  ignored: ReadonlySet<string>;
  /** Gets the numbers so far. */
  onProgress?: (files: number, bytes: number) => void;
  signal?: AbortSignal | undefined;
}

/** Python environments that are looked at. */
const maxEnvironments = 20;
/** Files between two calls of `onProgress`. */
const progressFiles = 2_000;
/** Bytes of a file in which a private key or a token is looked for. */
const probedBytes = 4_096;

/** Reads the names and sizes of everything below a folder; links are not followed. */
export async function scanFolder(root: string, options: ScanOptions): Promise<FolderScan> {
  const { tracked, ignored, onProgress, signal } = options;
  const sizes = new Map<string, number>();
  const secrets: string[] = [];
  const environments: string[] = [];
  const repositories: string[] = [];
  let files = 0;
  let bytes = 0;
  const count = (path: string, owner: string, size: number) => {
    files += 1;
    bytes += size;
    const top = path.split("/", 1)[0]!;
    for (const name of new Set([top, owner])) sizes.set(name, (sizes.get(name) ?? 0) + size);
    if (files % progressFiles === 0) onProgress?.(files, bytes);
  };
  const visit = async (folder: string, owner: string): Promise<void> => {
    signal?.throwIfAborted();
    for (const entry of await readdir(join(root, folder), { withFileTypes: true })) {
      const path = folder ? `${folder}/${entry.name}` : entry.name;
      if (entry.isDirectory()) {
        if (entry.name.endsWith(".git")) repositories.push(path);
        if (isSecretFolder(path)) secrets.push(path);
        else await visit(path, owner === "" && ignored.has(path) ? path : owner);
      } else if (entry.isFile() || entry.isSymbolicLink()) {
        const isSecret =
          !tracked.has(path) && !/(?:^|\/)\.git\//.test(path) && (await holdsSecret(root, path, entry));
        if (entry.name === "pyvenv.cfg" && folder !== "" && environments.length < maxEnvironments)
          environments.push(folder);
        if (isSecret) secrets.push(path);
        else count(path, owner || path.split("/", 1)[0]!, copiedBytes(await lstat(join(root, path))));
      }
    }
  };
  await visit("", "");
  return { files, bytes, sizes, secrets, environments, repositories };
}

function isSecretFolder(path: string): boolean {
  return /(?:^|\/)\.(?:ssh|gnupg|aws|azure|password-store)$/.test(path);
}

const keyStores = /\.(?:p12|pfx|jks|keystore|kdbx|ppk)$/i;
/** Files with nothing but secrets, which tools keep in a project. */
const secretFiles =
  /(?:^|\/)(?:\.envrc|\.pypirc|\.dev\.vars|\.htpasswd|\.pgpass|\.vault-token|kubeconfig|terraform\.tfstate(?:\.backup)?|\.cargo\/credentials(?:\.toml)?|\.kube\/config|\.streamlit\/secrets\.toml)$/;
/** Files that may hold a secret, by their content. */
const keyFiles =
  /\.(?:pem|key)$|(?:^|\/)(?:\.npmrc|\.yarnrc\.yml|auth\.json|hgrc|pip\.conf|\.docker\/config\.json)$|(?:credential|secret|service.?account)[\w.-]{0,60}\.json$/i;
const secretText =
  /PRIVATE KEY-----|_auth(?:Token)? ?= ?[^$ ]|npmAuth(?:Token|Ident): ?["']?[^$"' ]|"(?:auth|private_key|client_secret|password|identitytoken)" ?: ?"[^"$]|"(?:github-oauth|gitlab-token|bearer)" ?:|password ?= ?[^$ ]|:\/\/[^\s/:@]{1,100}:[^\s/@$]{1,200}@/;

async function holdsSecret(root: string, path: string, entry: Dirent): Promise<boolean> {
  if (!entry.isFile()) return false;
  if (isCredentialPath(`/${path}`) || isCredentialPath(`~/${path}`) || keyStores.test(path)) return true;
  if (secretFiles.test(path)) return true;
  if (!keyFiles.test(path)) return false;
  const beginning = await readBeginning(join(root, path), probedBytes);
  return secretText.test(beginning?.bytes.toString("latin1") ?? "");
}
