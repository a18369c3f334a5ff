"""Settings, MCP servers and secrets over the agent server's routes; keys are hidden or encrypted"""

from support import remote_workspace

with remote_workspace() as workspace:
    client = workspace.client
    docs = client.post("/api/settings/mcp/docs", json={"transport": "http", "url": "https://docs.example/mcp"})
    assert docs.status_code == 201, docs.text
    changed = client.patch("/api/settings/mcp/docs", json={"description": "Documentation"}).raise_for_status().json()
    assert changed["agent_settings"]["mcp_config"]["docs"]["description"] == "Documentation"
    left = client.delete("/api/settings/mcp/docs").raise_for_status().json()
    assert "docs" not in left["agent_settings"]["mcp_config"]

    put = lambda name, value: client.put("/api/settings/secrets", json={"name": name, "value": value, "description": "A key"})
    for value in ("first-value", "second-value"):
        assert put("SERVER_KEY", value).raise_for_status().json()["description"] == "A key"
        assert client.get("/api/settings/secrets/SERVER_KEY").text == value
    listed = [each for each in client.get("/api/settings/secrets").json()["secrets"] if each["name"] == "SERVER_KEY"]
    assert len(listed) == 1 and "value" not in listed[0], listed
    assert client.delete("/api/settings/secrets/SERVER_KEY").json()["deleted"] is True
    assert client.get("/api/settings/secrets/SERVER_KEY").status_code == 404
    assert [put(name, "value").status_code for name in ("123_invalid", "invalid-name")] == [422, 422]

    key_of = lambda answer: answer.json()["agent_settings"]["llm"]["api_key"]
    shown = client.patch("/api/settings", json={"agent_settings_diff": {"llm": {"api_key": "sk-scripted"}}})
    assert shown.json()["llm_api_key_is_set"] is True and key_of(shown) == "**********"
    encrypted = key_of(client.get("/api/settings", headers={"X-Expose-Secrets": "encrypted"}))
    assert encrypted.startswith("gAAAAA"), encrypted
    client.patch("/api/settings", json={"agent_settings_diff": {"llm": {"api_key": encrypted}}}).raise_for_status()
    assert key_of(client.get("/api/settings", headers={"X-Expose-Secrets": "plaintext"})) == "sk-scripted"
