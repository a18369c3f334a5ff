"""The workspace's model is the active profile's, also when the settings name another one"""

from support import MODEL_URL, remote_workspace

with remote_workspace() as workspace:
    client = workspace.client
    for name in ("profile-a", "profile-b"):
        model = {"model": f"openrouter/{name}", "api_key": f"sk-{name}"}
        created = client.post(f"/api/profiles/{name}", json={"llm": model, "include_secrets": True})
        assert created.status_code == 201, created.text
    change = lambda llm: client.patch("/api/settings", json={"agent_settings_diff": {"llm": llm}}).raise_for_status()
    try:
        client.post("/api/profiles/profile-a/activate").raise_for_status()
        change({"model": "gpt-5.5", "api_key": None})
        settings = client.get("/api/settings").json()
        assert settings["active_profile"] == client.get("/api/profiles").json()["active_profile"] == "profile-a"
        assert settings["agent_settings"]["llm"]["model"] == "gpt-5.5"
        for found, name in ((workspace.get_llm(), "profile-a"), (workspace.get_llm(profile_name="profile-b"), "profile-b")):
            assert found.model == f"openrouter/{name}" and found.api_key.get_secret_value() == f"sk-{name}", found
            assert found.usage_id == f"profile:{name}"
    finally:
        for name in ("profile-a", "profile-b"):
            client.delete(f"/api/profiles/{name}")
        change({"model": "openai/scripted", "api_key": "sk-scripted", "base_url": MODEL_URL})
