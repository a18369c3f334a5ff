"""run() ends with an error at the limit of steps, and when the agent is stuck"""

from openhands.sdk.conversation.exceptions import ConversationRunError
from support import info_of, open_conversation, remote_workspace


def run_fails(conversation, message, word):
    conversation.send_message(message)
    try:
        conversation.run(timeout=60)
    except ConversationRunError as error:
        assert word in str(error), error
    else:
        raise AssertionError("run() returned")


with remote_workspace() as workspace:
    with open_conversation(workspace, max_iteration_per_run=3, tags={"a": "b"}) as conversation:
        assert info_of(conversation)["max_iterations"] == 3 and info_of(conversation)["tags"] == {"a": "b"}
        run_fails(conversation, "\n".join(f"run: echo {number}" for number in range(8)), "MaxIterations")
    with open_conversation(workspace, stuck_detection_thresholds={"action_observation": 3}) as conversation:
        run_fails(conversation, "run: echo same\n" * 6, "stuck")
