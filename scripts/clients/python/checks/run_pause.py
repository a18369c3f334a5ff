"""run() returns on a pause, and a second run() continues the turn"""

import threading
import uuid

from support import REPEAT, assert_finished, info_of, open_conversation, remote_workspace, wait_until

with remote_workspace() as workspace, open_conversation(workspace) as conversation:
    for _ in range(REPEAT):
        marker = uuid.uuid4().hex
        conversation.send_message(f"run: sleep 0.7\nrun: sleep 0.7\nsay: {marker}")
        working = threading.Thread(target=lambda: conversation.run(timeout=60))
        working.start()
        wait_until(lambda: info_of(conversation)["execution_status"] == "running")
        conversation.pause()
        working.join(60)
        assert not working.is_alive(), "run() did not return on a pause"
        assert info_of(conversation)["execution_status"] == "paused"
        conversation.run(timeout=60)
        assert_finished(conversation, marker)
