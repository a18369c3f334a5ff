"""AsyncRemoteWorkspace: commands, files and changes"""

import asyncio
import tempfile
from pathlib import Path

from openhands.sdk.workspace.remote.async_remote_workspace import AsyncRemoteWorkspace
from support import FOLDER, remote_workspace


async def check(host, api_key):
    workspace = AsyncRemoteWorkspace(host=host, api_key=api_key, working_dir=FOLDER)
    assert (await workspace.execute_command("git init -q . && echo async", cwd=FOLDER)).stdout == "async\n"
    with tempfile.TemporaryDirectory() as folder:
        source, back = Path(folder) / "source", Path(folder) / "back"
        source.write_text("text")
        assert (await workspace.file_upload(source, f"{FOLDER}/new.txt")).success
        assert (await workspace.file_download(f"{FOLDER}/new.txt", back)).success
        assert back.read_text() == "text"
    assert [str(change.path) for change in await workspace.git_changes(FOLDER)] == ["new.txt"]
    assert (await workspace.git_diff(f"{FOLDER}/new.txt")).modified.strip() == "text"


with remote_workspace() as workspace:
    asyncio.run(check(workspace.host, workspace.api_key))
