"""Requests beside the SDK's methods: a minimal create, its runtime, an interrupt, the last answer"""

import uuid

from support import MODEL_URL, remote_workspace, wait_until

with remote_workspace() as workspace:
    client = workspace.client
    llm = {"model": "openai/scripted", "api_key": "sk-scripted", "base_url": MODEL_URL}
    body = {"agent": {"llm": llm, "tools": [{"name": "terminal"}]}, "workspace": {"working_dir": "/tmp/workspace/project"}}
    created = client.post("/api/conversations", json=body)
    assert created.status_code == 201, created.text
    path = f"/api/conversations/{created.json()['id']}"
    status = lambda: client.get(path).json()["execution_status"]
    say = lambda text: client.post(f"{path}/events", json={"content": [{"type": "text", "text": text}]}).raise_for_status()
    available = {"runtime_status": "available", "can_resume": True, "runtime_error": None}
    if client.get("/server_info").json()["capabilities"]:
        assert client.get(f"{path}/runtime").json() == client.post(f"{path}/runtime/reprovision").json() == available
    say("run: sleep 30")
    client.post(f"{path}/run").raise_for_status()
    wait_until(lambda: status() == "running")
    client.post(f"{path}/interrupt").raise_for_status()
    wait_until(lambda: status() == "paused")
    kind = {"kind": "openhands.sdk.event.user_action.InterruptEvent"}
    assert client.get(f"{path}/events/search", params=kind).json()["items"]
    say("say: the last answer")
    client.post(f"{path}/run").raise_for_status()
    wait_until(lambda: status() == "finished")
    assert client.get(f"{path}/agent_final_response").json() == {"response": "the last answer"}
    assert client.get(f"/api/conversations/{uuid.uuid4()}/agent_final_response").status_code == 404
    assert client.post("/api/conversations/prepare-for-sandbox-pause").status_code == 204
    for name, text in (("alive", "ok"), ("health", "ok"), ("ready", "ready")):
        assert client.get(f"/{name}").json() == {"status": text}
