import fc from "fast-check";
import { expect, test } from "vitest";
import { getDigest, parseImageReference, pinImage } from "./image-reference.ts";
import { Registries } from "./registries.ts";
import { createHostSpec, createImageSpec, parseHostUser } from "./specs.ts";

const digest = `sha256:${"0123456789abcdef".repeat(4)}`;

test.each([
  ["debian", "docker.io/library/debian:latest"],
  ["debian:12", "docker.io/library/debian:12"],
  ["docker.io/debian", "docker.io/library/debian:latest"],
  ["owner/app:1.0", "docker.io/owner/app:1.0"],
  ["localhost/app", "localhost/app:latest"],
  ["localhost:5000/a/b/c:x", "localhost:5000/a/b/c:x"],
  ["[::1]:5000/app", "[::1]:5000/app:latest"],
  ["docker://ghcr.io/a/b", "ghcr.io/a/b:latest"],
  ["oci:/srv/image", "oci:/srv/image"],
  ["oci:/srv/image:tag", "oci:/srv/image:tag"],
  ["docker-archive:/srv/a.tar:x/y:1", "docker-archive:/srv/a.tar:x/y:1"],
])("%s means %s", (text, name) => {
  for (const [written, wanted] of [
    [text, undefined],
    [`${text}@${digest}`, digest],
  ] as const) {
    expect(parseImageReference(written)).toMatchObject({ name, digest: wanted });
  }
  const once = pinImage(parseImageReference(text), digest);
  expect(getDigest(once)).toBe(digest);
  expect(pinImage(parseImageReference(once), digest)).toBe(once);
});

test.each([
  "",
  " debian",
  "Debian",
  "debian:",
  "debian:a b",
  "debian@sha256:12",
  `debian@sha512:${"0".repeat(128)}`,
  "a//b",
  "/a",
  "a/",
  "https://host/a",
  "user:password@host/a",
  "--help",
  "host:port/a",
  "host/../a",
  "a\nb",
  "oci:relative",
  "oci:/a/../b",
  "docker-archive:",
  "dir:/etc",
  "a".repeat(600),
])("%j is refused", (text) => {
  expect(() => parseImageReference(text)).toThrow(expect.objectContaining({ code: "SandboxSpecUnusable" }));
});

test("any text is refused with an error, or parsed to a stable result", () => {
  const piece = fc.constantFrom(
    "a",
    "B",
    ".",
    "/",
    ":",
    "@",
    "-",
    "_",
    "5000",
    "sha256",
    "localhost",
    "\0",
    "[",
    "]",
    "é",
    digest,
  );
  const text = fc.oneof(
    fc.string(),
    fc.array(piece, { maxLength: 8 }).map((parts) => parts.join("")),
  );
  fc.assert(
    fc.property(text, (reference) => {
      try {
        const image = parseImageReference(reference);
        expect(parseImageReference(image.name).name).toBe(image.name);
        expect(image.name).toMatch(/^[\x21-\x7e]+$/);
      } catch (error) {
        expect(error).toMatchObject({
          code: "SandboxSpecUnusable",
          message: expect.stringMatching(/^[^\n]+\.$/),
        });
      }
    }),
    { numRuns: 2_000 },
  );
});

test("a user's image gets everything else from the default spec", () => {
  const host = createHostSpec({ memoryBytes: 1, pids: 2, cpus: 3, diskBytes: 4 });
  const spec = createImageSpec("debian:12", { ...host, env: { A: "1" }, command: ["x"] }, new Registries());
  expect(spec).toEqual({
    ...host,
    id: "debian:12",
    root: { kind: "image", reference: "debian:12" },
    env: { A: "1" },
    user: null,
  });
  for (const reference of ["oci:/srv/image", "docker-archive:/etc/passwd", "a b"])
    expect(() => createImageSpec(reference, host, new Registries())).toThrow(
      expect.objectContaining({
        code: "SandboxSpecUnusable",
        message: expect.stringContaining("The setting sandbox_base_container_image cannot be used: "),
      }),
    );
});

test("a host sandbox's user is a name or numbers", () => {
  expect(parseHostUser(null)).toEqual({ name: "agent", uid: 1000, gid: 1000, home: "/home/agent" });
  expect(parseHostUser("1234:5")).toEqual({ name: "agent", uid: 1234, gid: 5, home: "/home/agent" });
  expect(parseHostUser("0")).toEqual({ name: "root", uid: 0, gid: 0, home: "/root" });
  expect(parseHostUser("root")).toEqual(parseHostUser("0"));
  for (const text of ["", "-1", "65535", "a b", "a:b", "1:2:3", "../x", "Ann"])
    expect(() => parseHostUser(text)).toThrow(/must be a name/);
});
