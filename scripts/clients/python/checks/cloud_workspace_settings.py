"""OpenHandsCloudWorkspace: model, MCP servers, and a secret that is added after a first conversation"""

from openhands.workspace import OpenHandsCloudWorkspace
from support import KEY, URL, open_conversation, platform, turn

with OpenHandsCloudWorkspace(cloud_api_url=URL, cloud_api_key=KEY) as workspace:
    assert workspace.get_llm().model == "openai/scripted"
    workspace.get_mcp_config()
    with open_conversation(workspace) as conversation:
        turn(conversation, "echo without")
    platform.post("/api/v1/secrets", json={"name": "ADDED_LATER", "value": "added-later"})
    secrets = workspace.get_secrets(names=["ADDED_LATER"])
    with open_conversation(workspace) as conversation:
        conversation.update_secrets(secrets)
        turn(conversation, 'test -n "$ADDED_LATER" && echo arrived > arrived.txt')
        assert workspace.execute_command("cat arrived.txt", cwd=workspace.working_dir).stdout == "arrived\n"
