"""Files go up and come back unchanged"""

import tempfile
from pathlib import Path

from support import FOLDER, remote_workspace

with remote_workspace() as workspace, tempfile.TemporaryDirectory() as folder:
    source, back = Path(folder) / "source.bin", Path(folder) / "back.bin"
    source.write_bytes(bytes(range(256)) * 1000)
    assert workspace.file_upload(source, f"{FOLDER}/deep/er/file.bin").success
    assert workspace.file_download(f"{FOLDER}/deep/er/file.bin", back).success
    assert back.read_bytes() == source.read_bytes()
    assert not workspace.file_download(f"{FOLDER}/missing", back).success
