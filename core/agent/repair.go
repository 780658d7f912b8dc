package agent

import "github.com/lingjiyidong/lj/core"

// Repair returns the results that a stored conversation lacks: one for each call at its
// end that was never answered because the process died. A log whose every call has its
// result gives nil. Only the last calls can lack results: what came before was sent, and
// complete.
//
// The caller stores what it gets, once, before anything else is appended.
func Repair(msgs []core.StoredMessage, enc Encoder) []core.StoredMessage {
	last := -1
	for i := len(msgs) - 1; i >= 0; i-- {
		if msgs[i].Role == core.RoleTool {
			continue
		}
		last = i
		break
	}
	if last < 0 || msgs[last].Role != core.RoleAssistant || len(msgs[last].ToolCalls) == 0 {
		return nil
	}
	have := map[string]bool{}
	for _, m := range msgs[last+1:] {
		have[m.ToolCallID] = true
	}
	var out []core.StoredMessage
	for _, c := range msgs[last].ToolCalls {
		if have[c.ID] {
			continue
		}
		res := core.ErrorResult("interrupted: lj was stopped while this call ran or before it; it may be partly done. Look before doing it again.")
		out = append(out, core.StoredMessage{
			Turn: msgs[last].Turn, Note: "repair",
			Message: core.Message{Role: core.RoleTool, Content: res.Text, ToolCallID: c.ID, Raw: enc.ToolResult(c.ID, c.Name, res)},
		})
	}
	return out
}
