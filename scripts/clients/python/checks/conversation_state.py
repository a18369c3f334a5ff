"""The state of a conversation: status, agent, workspace, policy, stats, events"""

from support import FOLDER, open_conversation, remote_workspace, turn

with remote_workspace() as workspace, open_conversation(workspace) as conversation:
    state = conversation.state
    assert state.execution_status.value == "idle"
    turn(conversation, "echo state")
    assert state.agent.llm.model == "openai/scripted"
    assert state.workspace["working_dir"] == FOLDER
    assert type(state.confirmation_policy).__name__ == "NeverConfirm"
    assert state.persistence_dir
    assert state.stats.get_combined_metrics().accumulated_token_usage is not None
    kinds = [type(event).__name__ for event in state.events]
    assert kinds.count("ActionEvent") == 2, kinds
    assert "SystemPromptEvent" in kinds and "ObservationEvent" in kinds, kinds
