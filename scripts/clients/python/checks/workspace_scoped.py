"""A workspace of one conversation: commands, files and changes below its path"""
# since: 1.49

import tempfile
from pathlib import Path

from openhands.sdk import RemoteWorkspace
from support import FOLDER, open_conversation, remote_workspace

with remote_workspace() as workspace, open_conversation(workspace) as conversation:
    access = {"host": workspace.host, "api_key": workspace.api_key, "working_dir": FOLDER}
    scoped = RemoteWorkspace(runtime_conversation_id=str(conversation.id), **access)
    assert scoped.execute_command("git init -q . ; echo scoped").stdout.endswith("scoped\n")
    with tempfile.TemporaryDirectory() as folder:
        source, back = Path(folder) / "source", Path(folder) / "back"
        source.write_text("text")
        assert scoped.file_upload(source, f"{FOLDER}/new.txt").success
        assert scoped.file_download(f"{FOLDER}/new.txt", back).success and back.read_text() == "text"
    assert [str(change.path) for change in scoped.git_changes(FOLDER)] == ["new.txt"]
