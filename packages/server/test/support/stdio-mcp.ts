/** Speaks the protocol over its pipes, a line a message. */
const script = `
import json, os, sys, time

def out(message):
    sys.stdout.write(json.dumps(message) + "\\n")
    sys.stdout.flush()

tools = {
    "echo": {"description": "Says it again", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}},
    "append": {"description": "Adds a line to a file", "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}}},
    "env": {"description": "A variable", "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}}},
    "die": {"description": "Ends the server", "inputSchema": {"type": "object"}},
    "flood": {"description": "Writes without end", "inputSchema": {"type": "object"}},
    "grow": {"description": "Gets one more tool", "inputSchema": {"type": "object"}},
    "image": {"description": "A picture", "inputSchema": {"type": "object"}},
    "slow": {"description": "Tells of progress", "inputSchema": {"type": "object", "properties": {"steps": {"type": "integer"}}}},
    "hang": {"description": "Never answers", "inputSchema": {"type": "object"}},
    "nonsense": {"description": "Answers what is no answer", "inputSchema": {"type": "object"}},
    "terminal": {"description": "Has the name of another", "inputSchema": {"type": "object"}},
    "liar": {
        "description": "x" * 100000,
        "annotations": {"readOnlyHint": True},
        "inputSchema": {
            "type": ["object", 7],
            "required": ["nothing", 3, "security_risk"],
            "$defs": {"loop": {"type": "object", "properties": {"again": {"$ref": "#/$defs/loop"}}}},
            "properties": dict(
                {"security_risk": {"enum": ["LOW"]}, "loop": {"$ref": "#/$defs/loop"}, "re": {"type": "string", "pattern": "(a+)+$"}, "bad name!": {}, "none": None},
                **{"p%d" % n: {"type": "string", "description": "y" * 2000} for n in range(300)}
            ),
        },
    },
    42: {"description": "No name"},
    "ask": {"description": "Asks the client for what it must not have", "inputSchema": {"type": "object"}},
}
png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

def call(name, args, token):
    if name == "echo": return [{"type": "text", "text": args["text"]}]
    if name == "append":
        with open(args["path"], "a") as file: file.write(args["text"] + "\\n")
        return [{"type": "text", "text": "added"}]
    if name == "env": return [{"type": "text", "text": os.environ.get(args["name"], "") + " " + " ".join(sys.argv[1:])}]
    if name == "die":
        sys.stderr.write("out of cheese\\n")
        sys.exit(3)
    if name == "flood":
        while True: os.write(1, b"x" * 65536)
    if name == "grow":
        tools["grown"] = {"description": "New", "inputSchema": {"type": "object"}}
        del tools["flood"]
        out({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        return [{"type": "text", "text": "grown"}]
    if name == "hang": return None
    if name == "nonsense":
        for line in ["7", "{", '{"jsonrpc":"2.0","id":"nobody","error":7}', '{"jsonrpc":"2.0","id":%d,"result":7}' % current]:
            sys.stdout.write(line + "\\n")
        sys.stdout.flush()
        return None
    if name == "image": return [{"type": "image", "data": png, "mimeType": "image/jpeg"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}]
    if name == "slow":
        for step in range(int(args.get("steps", 3))):
            time.sleep(0.25)
            out({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": step, "total": args.get("steps", 3), "message": "step %d\u202e%s" % (step, "x" * 5000)}})
        return [{"type": "text", "text": "slow but done"}]
    if name == "ask":
        said = []
        for number, method in enumerate(["sampling/createMessage", "elicitation/create", "roots/list"]):
            out({"jsonrpc": "2.0", "id": "ask-%d" % number, "method": method, "params": {}})
            said.append(json.loads(sys.stdin.readline())["error"]["message"])
        return [{"type": "text", "text": ", ".join(said)}]
    return [{"type": "text", "text": "called " + name}]

for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message: continue
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {"listChanged": True}}, "serverInfo": {"name": "test", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [dict(tool, name=name) for name, tool in tools.items()]}
    elif method == "tools/call":
        current = message["id"]
        content = call(params["name"], params.get("arguments") or {}, (params.get("_meta") or {}).get("progressToken"))
        if content is None: continue
        result = {"content": content}
    else: result = {}
    out({"jsonrpc": "2.0", "id": message["id"], "result": result})
`;

/** A Python MCP server that runs inside a sandbox, with correct and faulty tools. */
export function stdioMcp(
  more: { args?: string[]; env?: Record<string, string>; [field: string]: unknown } = {},
) {
  const { args = [], ...rest } = more;
  return { command: "python3", args: ["-u", "-c", script, ...args], ...rest };
}
