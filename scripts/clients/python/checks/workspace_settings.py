"""The workspace's model, secrets, MCP servers, skills and server info come from the user's settings"""

from support import platform, remote_workspace

platform.post("/api/v1/secrets", json={"name": "CLIENT_SECRET", "value": "from-settings"})
with remote_workspace() as workspace:
    assert workspace.alive
    info = workspace.get_server_info()
    assert info["version"]
    model = workspace.get_llm()
    assert model.model == "openai/scripted" and model.api_key.get_secret_value() == "sk-scripted"
    secrets = workspace.get_secrets(names=["CLIENT_SECRET"])
    assert secrets["CLIENT_SECRET"].get_value() == "from-settings"
    assert isinstance(workspace.get_mcp_config(), dict)
    workspace.load_skills_from_agent_server()
