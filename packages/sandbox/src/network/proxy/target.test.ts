import { isReachable, parseRanges } from "@sandpiper/core/outbound/addresses";
import { expect, test } from "vitest";
import { matchesHost } from "../policy/policy.ts";
import { parseAuthority, parseProxyUrl, toAuthority } from "./target.ts";

test("every spelling of a host has one canonical form", () => {
  const host = (text: string) => parseAuthority(`${text}:80`)?.host;
  expect(["EXAMPLE.com", "example.com.", "ex\u00e4mple.com", "faß.de"].map(host)).toEqual([
    "example.com",
    "example.com",
    "xn--exmple-cua.com",
    "xn--fa-hia.de",
  ]);
  expect(["0x7f.1", "2130706433", "0177.0.0.1", "127.1.", "１２７.1"].map(host)).toEqual(
    Array(5).fill("127.0.0.1"),
  );
  expect(["[::FFFF:1.2.3.4]", "[0:0:0:0:0:0:0:1]"].map(host)).toEqual(["::ffff:102:304", "::1"]);
  expect(
    ["", ".", "a b", "a/b", "a@b", "a#b", "a?b", "[::1%25lo]", "%31.1.1.1", "999.1.1.1", "a\\b", "a..b"].map(
      host,
    ),
  ).toEqual([...Array(11).fill(undefined), "a..b"]);
});

test("URLs are parsed into host, port and path; other texts are refused", () => {
  expect(parseProxyUrl("http://a.test/x?y#z")).toEqual({ host: "a.test", port: 80, path: "/x?y#z" });
  expect(parseProxyUrl("HTTP://[::1]:8080?q")).toEqual({ host: "::1", port: 8080, path: "/?q" });
  expect(
    ["/x", "http:a", "http:///a", "ftp://a/", "http://a:b/", "http://a:0/", "http://u:p@a/"].map(
      parseProxyUrl,
    ),
  ).toEqual(Array(7).fill(undefined));
  expect(toAuthority({ host: "::1", port: 80 }, 80)).toBe("[::1]");
});

test("a rule matches one host or all its subdomains", () => {
  expect(matchesHost("Example.com", "example.com")).toBe(true);
  expect(matchesHost("*.example.com", "a.b.example.com")).toBe(true);
  expect(matchesHost("*.example.com", "example.com")).toBe(false);
  expect(matchesHost("*.example.com", "badexample.com")).toBe(false);
  expect(matchesHost("example.com", "a.example.com")).toBe(false);
  expect(matchesHost("*.1.1", "127.0.1.1")).toBe(false);
  expect(matchesHost("::1", "::1")).toBe(true);
});

test("private ranges are allowed only when a rule lists them", () => {
  const ranges = parseRanges(["10.1.0.0/16", "fd00:1::/32", "192.168.7.7"]);
  const open = [
    "10.1.2.3",
    "::ffff:10.1.2.3",
    "fd00:1::5",
    "192.168.7.7",
    "93.184.216.34",
    "2606:4700::1111",
    "64:ff9b::5db8:d822",
  ];
  expect(open.filter((address) => !isReachable(address, ranges))).toEqual([]);
  const closed = [
    "10.2.0.1",
    "fd00:2::1",
    "192.168.7.8",
    "fe80::1%eth0",
    "nonsense",
    "",
    "64:ff9b::a00:1",
    "2001:db8::1",
    "::ffff:0:a01:203",
  ];
  expect(closed.filter((address) => isReachable(address, ranges))).toEqual([]);
  for (const bad of ["10.0.0.0/33", "x", "10.0.0.0/", "fd00::/129", "10.0.0.0/-1"])
    expect(() => parseRanges([bad])).toThrow(expect.objectContaining({ code: "ConfigInvalid" }));
});
