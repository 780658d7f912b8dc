package history

import "github.com/lingjiyidong/lj/core"

// Lost is the result of a call whose own result is gone.
const Lost = "the result of this call is lost; look again before relying on it"

// Sound makes a conversation one that the strictest server takes, whatever happened to it
// (rows lost with a damaged file, messages from elsewhere): a result that answers no open
// call is left out, a call without a result gets one that says so, made by result. changed
// says whether anything had to be done; what is good stays as it is.
func Sound(msgs []core.StoredMessage, result func(callID, text string) []byte) (out []core.StoredMessage, changed bool) {
	var open []core.ToolCall
	turn := 0
	close := func() {
		for _, c := range open {
			changed = true
			out = append(out, core.StoredMessage{Turn: turn, Note: "repair", Message: core.Message{
				Role: core.RoleTool, Content: Lost, ToolCallID: c.ID, Raw: result(c.ID, Lost)}})
		}
		open = nil
	}
	for _, m := range msgs {
		if m.Role == core.RoleTool {
			found := false
			for i, c := range open {
				if c.ID == m.ToolCallID {
					open = append(open[:i:i], open[i+1:]...)
					found = true
					break
				}
			}
			if !found {
				changed = true
				continue
			}
			out = append(out, m)
			continue
		}
		close()
		out = append(out, m)
		open, turn = m.ToolCalls, m.Turn
	}
	close()
	return out, changed
}
