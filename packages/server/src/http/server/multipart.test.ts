import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { expect, test } from "vitest";
import { parseFormFile } from "./multipart.ts";

const type = 'multipart/form-data; boundary="b-1"';
const form =
  '--b-1\r\nContent-Disposition: form-data; name="note"\r\n\r\nfile\r\n--b-1\r\ncontent-disposition: form-data; name="file"; filename="a"\r\nContent-Type: text/plain\r\n\r\none\r\n--b-\r\n--b two\r\n--b-1--\r\n';

/** Splits a body into chunks of `size`. */
const chunks = (text: string, size: number) => {
  const bytes = Buffer.from(text, "latin1");
  return Readable.from(
    Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
      bytes.subarray(index * size, (index + 1) * size),
    ),
    { objectMode: false },
  );
};

test("the file of a form is read, however its body is cut into chunks", async () => {
  for (let size = 1; size <= form.length; size++) {
    expect(String(await buffer(await parseFormFile(chunks(form, size), type, "file")))).toBe(
      "one\r\n--b-\r\n--b two",
    );
  }
});

test("a form of fetch, with any bytes and an empty file, is read", async () => {
  for (const content of [
    Buffer.from(Array.from({ length: 1000 }, (_, index) => index % 256)),
    Buffer.alloc(0),
    Buffer.alloc(300_000, 13),
  ]) {
    const data = new FormData();
    data.append("other", "x".repeat(100_000));
    data.append("file", new Blob([content]), 'ü"\r\n.bin');
    const request = new Request("http://x.example", { method: "POST", body: data });
    const body = Readable.fromWeb(request.body as ReadableStream);
    expect(
      content.equals(await buffer(await parseFormFile(body, request.headers.get("content-type")!, "file"))),
    ).toBe(true);
  }
});

test("a body that is not a form, lacks the file, or ends early is rejected", async () => {
  const read = async (text: string, contentType = type) =>
    buffer(await parseFormFile(chunks(text, 7), contentType, "file"));
  await expect(read(form, "text/plain")).rejects.toMatchObject({ code: "UnsupportedMediaType" });
  await expect(read(form, "multipart/form-data")).rejects.toMatchObject({ code: "UnsupportedMediaType" });
  const field = '--b-1\r\nContent-Disposition: form-data; name="note"\r\n\r\nx\r\n';
  expect(String(await read(field.repeat(90) + form))).toMatch(/^one/);
  const bad = [
    field.repeat(110) + form,
    "",
    "--b-1--",
    form.replace('name="file"', 'name="f"'),
    form.slice(0, -20),
    `--b-1\r\n${"x".repeat(20_000)}`,
    "no form",
  ];
  for (const text of bad) await expect(read(text)).rejects.toMatchObject({ code: "BadRequest" });
});
