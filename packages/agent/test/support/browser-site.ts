import type { RequestListener } from "node:http";

const pages: Record<string, string> = {
  "/": `<title>Start</title><h1>Hello</h1><p>Some <b>text</b> with a <a href="/two">second page</a>, a <a href="/three" target="_blank">third</a>
    <form action="/sent"><input name="q" placeholder="Query"><select name="s"><option>one<option>two</select><input type=password name=p value=hidden>
    <input type=date name=d><button>Send</button></form><button disabled>Off</button><div onclick="this.textContent = 'clicked'">Press</div>
    <ul><li>a<li>b</ul><pre>x\n  y</pre><p style="display:none">not shown</p><iframe srcdoc="<button onclick=&quot;this.textContent='inside'&quot;>inner</button>"></iframe>
    <my-part></my-part><script>document.querySelector("my-part").attachShadow({mode: "open"}).innerHTML = "<button>in shadow</button>"</script>
    <div style="height:3000px"></div>the end`,
  "/two": "<title>Second</title>two",
  "/three": "<title>Third</title>three",
  "/dialogs": `<script>alert("hi"); const sure = confirm("sure?"); const name = prompt("name?"); onbeforeunload = (e) => e.preventDefault();
    document.title = "sure " + sure + ", name " + name</script><button>b</button>`,
  "/loop": "<title>Loop</title><script>setTimeout(() => { for (;;); }, 50)</script>hi",
  "/reload": "<script>location.reload()</script>hi",
  "/clobber": `<title>Clobber</title><form><input name="tagName"><input name="firstChild"><input name="getAttribute"><input name="children"></form><img name="createTreeWalker"><img
    name="body"><script>Element.prototype.getAttribute = () => { throw new Error("no") }; Array.prototype.push = () => 0; JSON.stringify = () => "lies";
    globalThis.sandpiperPage = { state: () => "lies" }</script><button>fine</button>`,
  "/flood": `<title>Flood</title><button>fine</button><script>
    setInterval(() => { for (let i = 0; i < 500; i++) { console.log("x".repeat(1000)); document.title = "Flood " + Math.random(); history.replaceState(i, "", "?" + i); } for (let i = 0; i < 50; i++) { const f = document.createElement("iframe"); document.body.append(f); f.remove() } }, 1)</script>`,
  "/alerts": "<title>Alerts</title><script>for (;;) alert('again')</script>",
  "/popups": "<title>Popups</title><script>for (let i = 0; i < 40; i++) open('about:blank#' + i)</script>",
  "/many": `<title>Many</title><script>document.write("<a href=/two>link of some length that takes room in the list</a> ".repeat(4000))</script>`,
  "/noise": `<title>Noise</title><canvas width=1280 height=800 style="position:fixed;left:0;top:0"></canvas><script>const c = document.querySelector("canvas").getContext("2d"); const d = c.createImageData(1280, 800);
    for (let i = 0; i < d.data.length; i += 65536) crypto.getRandomValues(d.data.subarray(i, i + 65536)); for (let i = 3; i < d.data.length; i += 4) d.data[i] = 255; c.putImageData(d, 0, 0)</script>`,
  // Tries to use the browser's own debugging protocol, although its port and path are told.
  "/debugger": `<title>wait</title><pre></pre><script>
    const [port, path] = location.search.slice(1).split(","); const said = {}; const base = "//127.0.0.1:" + port;
    const attempt = (name, work) => Promise.race([work(), new Promise((_, no) => setTimeout(() => no("time"), 3000))])
      .then((text) => { said[name] = text }, () => { said[name] = "blocked" });
    const socket = (host) => () => new Promise((yes, no) => { const s = new WebSocket("ws://" + host + ":" + port + path);
      s.onopen = () => yes("open"); s.onerror = no });
    const read = (url, init) => async () => (await fetch(url, init)).text();
    const frame = (url) => () => new Promise((yes) => { const f = document.createElement("iframe"); f.src = url; document.body.append(f);
      f.onload = () => { try { yes(f.contentDocument.body.textContent) } catch { yes("blocked") } } });
    const load = (tag, url) => () => new Promise((yes, no) => { const e = document.createElement(tag); e.src = url; e.onload = () => yes("loaded"); e.onerror = no; document.body.append(e) });
    const names = ["127.0.0.1", "localhost", "x.localhost", "[::1]", "0.0.0.0"];
    const all = [
      ...names.map((host) => ["socket " + host, socket(host)]), ...names.map((host) => ["list " + host, read("http://" + host + ":" + port + "/json/list")]),
      ["new by PUT", read("http:" + base + "/json/new?file:///etc/passwd", { method: "PUT" })],
      ["new by POST", async () => { await fetch("http:" + base + "/json/new?file:///etc/hostname", { method: "POST", mode: "no-cors" }); return "sent" }],
      ["new by GET", async () => { await fetch("http:" + base + "/json/new?file:///etc/hosts", { mode: "no-cors" }); return "sent" }],
      ["frame", frame("http:" + base + "/json/list")], ["file frame", frame("file:///etc/passwd")], ["script", load("script", "http:" + base + "/json/list")],
      ["file", read("file:///etc/passwd")], ["chrome", read("chrome://version")], ["devtools frame", frame("devtools://devtools/bundled/inspector.html")],
      ["file window", async () => open("file:///etc/passwd") ? "opened" : "blocked"],
    ];
    Promise.all(all.map(([name, work]) => attempt(name, work))).then(() => { document.querySelector("pre").textContent = JSON.stringify(said); document.title = "done" });
    </script>`,
  "/upload": `<input type=file onchange="document.title = this.files[0].name + ' ' + this.files[0].size">`,
};

/** The site of the browser tests. */
export const site: RequestListener = (request, response) => {
  const path = request.url!.split("?")[0]!;
  if (path === "/never") return;
  if (path === "/redirect") return void response.writeHead(302, { location: "/redirect" }).end();
  if (path === "/file")
    return void response.writeHead(200, { "content-disposition": "attachment; filename=a.bin" }).end("abc");
  response.setHeader("content-type", "text/html");
  if (path === "/sent") return void response.end(`<title>Sent</title>${request.url}`);
  if (path === "/large") {
    response.write("<title>Large</title>");
    for (let i = 0; i < 4; i++) response.write(`<p>${"word ".repeat(200_000)}</p>`);
    return void response.end();
  }
  const page = pages[path];
  if (!page) response.statusCode = 404;
  response.end(page ?? "nothing");
};
