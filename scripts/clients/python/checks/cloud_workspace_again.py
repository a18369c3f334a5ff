"""OpenHandsCloudWorkspace with keep_alive, then with the id of its sandbox"""

from openhands.workspace import OpenHandsCloudWorkspace
from support import KEY, URL, platform

first = OpenHandsCloudWorkspace(cloud_api_url=URL, cloud_api_key=KEY, keep_alive=True)
first.execute_command("echo kept > /workspace/project/kept.txt")
identifier = first._sandbox_id
first.cleanup()
platform.post(f"/api/v1/sandboxes/{identifier}/pause").raise_for_status()
with OpenHandsCloudWorkspace(cloud_api_url=URL, cloud_api_key=KEY, sandbox_id=identifier) as second:
    assert second.execute_command("cat /workspace/project/kept.txt").stdout == "kept\n"
