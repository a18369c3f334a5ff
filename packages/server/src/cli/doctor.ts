import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { isRootless } from "@sandpiper/sandbox/drivers/common/uid-range";
import { findScarce, formatSize, getDiskSpace } from "@sandpiper/sandbox/service/disk-space";
import type { Config } from "../config/config.ts";
import { checkBlobs } from "./doctor-blobs.ts";
import { checkDatabase } from "./doctor-database.ts";
import { examineMachine } from "./doctor-machine.ts";
import { examineSandboxes } from "./doctor-sandboxes.ts";
import { checkVaultKey } from "./doctor-vault-key.ts";
import { exitCodes } from "./errors.ts";
import { type DoctorFinding, finding } from "./finding.ts";
import { inertJson, inertLine } from "./inert.ts";
import { loadConfig } from "./load-config.ts";
import { probePort } from "./local-platform.ts";
import { findServer } from "./server-file.ts";
import { createPaint } from "./style.ts";

const lowDiskBytes = 1024 ** 3;
/** With less free bytes or files a server cannot store or start anything. */
const fullBytes = 1024 ** 2;
const fullFiles = 16;
const run = promisify(execFile);
const rootlessScript = fileURLToPath(new URL("../../../../scripts/rootless", import.meta.url));

/** `sandpiper doctor`. Returns 1 when a requirement is not met. */
export async function doctor(options: { json?: boolean }): Promise<number> {
  const findings = await examine(loadConfig());
  const able = findings.every(({ ok, essential }) => ok || !essential);
  if (options.json) process.stdout.write(`${inertJson({ ok: able, findings }, 2)}\n`);
  else process.stdout.write(report(findings, able));
  return able ? exitCodes.ok : exitCodes.failed;
}

function report(findings: readonly DoctorFinding[], able: boolean): string {
  const paint = createPaint(process.stdout);
  const lines = findings.flatMap(({ name, ok, essential, found, advice }) => {
    const mark = ok
      ? paint("green", "OK     ")
      : essential
        ? paint("red", "MISSING")
        : paint("yellow", "missing");
    return [
      `${mark}  ${name.padEnd(18)} ${inertLine(found)}`,
      ...(advice ? [`${" ".repeat(28)}→ ${inertLine(advice)}`] : []),
    ];
  });
  const verdict = able
    ? "This machine can run Sandpiper."
    : "This machine cannot run Sandpiper until every MISSING part is installed.";
  return `${lines.join("\n")}\n\n${verdict}\n`;
}

/** Checks this machine for a server with this configuration. */
export async function examine(config: Config): Promise<DoctorFinding[]> {
  return [
    checkNode(),
    await checkRoot(),
    ...examineMachine(config),
    ...(await examineSandboxes(config)),
    await checkDataFolder(config),
    await checkVaultKey(config),
    ...(await checkBlobs(config)),
    ...(await checkDatabase(config)),
    await checkDisk(config),
    checkUserDisk(config),
    await checkPort(config),
    await checkGit(),
  ];
}

function checkNode(): DoctorFinding {
  const ok = Number(process.versions.node.split(".")[0]) >= 24;
  return finding(
    "node",
    true,
    ok,
    process.version,
    "Install Node.js 24 or newer, or run `sh scripts/setup.sh`, which installs it.",
  );
}

async function checkRoot(): Promise<DoctorFinding> {
  if (process.getuid?.() === 0) {
    return finding(
      "root",
      true,
      true,
      isRootless() ? "not needed: this user has subordinate ids" : "this is root",
    );
  }
  const obstacle = await run(rootlessScript, ["--check"]).then(
    () => "",
    (error: { stderr?: string }) => (error.stderr ?? "").replace(/^sandpiper: /, "").trim(),
  );
  const sudo = await run("sudo", ["-V"]).then(
    () => true,
    () => false,
  );
  return {
    ...finding(
      "root",
      !sudo,
      false,
      sudo ? "through sudo: this user cannot run sandboxes" : "not root, and no sudo",
    ),
    advice: `To run without root: ${obstacle}`,
  };
}

/** The path itself, or its nearest existing parent. */
async function findExistingFolder(path: string): Promise<string> {
  try {
    await access(path);
    return path;
  } catch {
    return dirname(path) === path ? path : findExistingFolder(dirname(path));
  }
}

async function checkDataFolder({ dataDir }: Config): Promise<DoctorFinding> {
  const nearest = await findExistingFolder(dataDir);
  const ok = await access(nearest, constants.W_OK | constants.X_OK).then(
    () => true,
    () => process.getuid?.() !== 0 && nearest === dataDir,
  );
  const found = nearest === dataDir ? dataDir : `${dataDir} (will be created)`;
  return finding(
    "data folder",
    true,
    ok,
    ok ? found : `${nearest} is not writable`,
    "Set SANDPIPER_DATA to a writable folder.",
  );
}

async function checkDisk({ dataDir }: Config): Promise<DoctorFinding> {
  const folder = await findExistingFolder(dataDir);
  const space = await getDiskSpace(folder);
  const { diskBytes, files } = space;
  const gibibytes = (bytes: number) => (bytes / 1024 ** 3).toFixed(1);
  const inodes = files.total > 0 ? `, ${files.free} of ${files.total} files` : "";
  const isFull = diskBytes.free < fullBytes || (files.total > 0 && files.free < fullFiles);
  const amount = `${gibibytes(diskBytes.free)} of ${gibibytes(diskBytes.total)} GiB${inodes} free`;
  const found = isFull ? `full: ${amount}` : amount;
  return finding(
    "disk space",
    false,
    !isFull && diskBytes.free >= lowDiskBytes && findScarce(space) === undefined,
    found,
    isFull
      ? `Free some space on the disk of ${folder}: until then a server only deletes, stops and pauses.`
      : `Free some space on the disk of ${folder}, which stores the files of sandboxes.`,
  );
}

function checkUserDisk({ sandboxQuotas: { userDiskBytes } }: Config): DoctorFinding {
  const found =
    userDiskBytes > 0
      ? `${formatSize(userDiskBytes)} for the sandboxes and snapshots of a user`
      : "no limit for the sandboxes and snapshots of a user (SANDPIPER_USER_DISK)";
  return finding("user disk", false, true, found);
}

async function checkPort({ dataDir, host, port }: Config): Promise<DoctorFinding> {
  const server = findServer(dataDir);
  if (server?.stays && Number(new URL(server.url).port) === port)
    return finding("port", true, true, `${host}:${port} is used by the server of the data folder`);
  const free = await probePort(host, port);
  const found = free === true ? `${host}:${port} is free` : `${host}:${port} cannot be used (${free.code})`;
  return finding(
    "port",
    false,
    free === true,
    found,
    "Stop the program that uses the port (perhaps a Sandpiper server), or set SANDPIPER_PORT.",
  );
}

async function checkGit(): Promise<DoctorFinding> {
  try {
    const { stdout } = await run("git", ["--version"]);
    return finding("git", true, true, stdout.trim().replace("git version ", ""));
  } catch {
    return finding("git", true, false, "not found", "Install git (Debian and Ubuntu: apt-get install git).");
  }
}
