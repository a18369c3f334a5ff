"""Only risky actions wait for confirmation, as an analyzer rates them"""

from openhands.sdk.event import ActionEvent
from openhands.sdk.security.confirmation_policy import ConfirmRisky
from openhands.sdk.security.llm_analyzer import LLMSecurityAnalyzer
from support import info_of, open_conversation, remote_workspace

with remote_workspace() as workspace, open_conversation(workspace) as conversation:
    conversation.set_security_analyzer(LLMSecurityAnalyzer())
    conversation.set_confirmation_policy(ConfirmRisky())
    conversation.send_message("run: echo harmless\nrun: rm -f nothing\nsay: end")
    conversation.run(timeout=60)
    assert info_of(conversation)["execution_status"] == "waiting_for_confirmation"
    actions = [event for event in conversation.state.events if isinstance(event, ActionEvent)]
    assert [action.security_risk.value for action in actions] == ["LOW", "HIGH"], actions
    assert type(conversation.state.confirmation_policy).__name__ == "ConfirmRisky"
    assert type(conversation.state.security_analyzer).__name__ == "LLMSecurityAnalyzer"
    conversation.run(timeout=60)
    assert info_of(conversation)["execution_status"] == "finished"
