"""OpenHandsCloudWorkspace starts a sandbox, works in it and deletes it"""

from openhands.workspace import OpenHandsCloudWorkspace
from support import KEY, URL, open_conversation, platform, turn

with OpenHandsCloudWorkspace(cloud_api_url=URL, cloud_api_key=KEY) as workspace:
    assert workspace.execute_command("echo in the sandbox").stdout == "in the sandbox\n"
    with open_conversation(workspace) as conversation:
        turn(conversation, "echo cloud > cloud.txt")
        assert workspace.execute_command("cat cloud.txt", cwd=workspace.working_dir).stdout == "cloud\n"
    identifier = workspace._sandbox_id
found = platform.get("/api/v1/sandboxes", params={"id": identifier}).json()
assert found == [None] or found[0]["status"] == "MISSING", found
