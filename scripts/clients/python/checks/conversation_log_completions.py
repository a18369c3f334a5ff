"""Calls of a model that logs its completions arrive as files"""

import json
import pathlib
import tempfile

from support import agent, open_conversation, remote_workspace, turn

with tempfile.TemporaryDirectory() as folder, remote_workspace() as workspace:
    model = {"log_completions": True, "log_completions_folder": folder}
    with open_conversation(workspace, agent=agent(**model)) as conversation:
        turn(conversation, "echo logged")
    files = [json.loads(path.read_text()) for path in pathlib.Path(folder).rglob("*.json")]
    assert len(files) >= 2, [str(path) for path in pathlib.Path(folder).rglob("*")]
    assert all(file["messages"] and file["response"] for file in files)
