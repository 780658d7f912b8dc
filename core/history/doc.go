// Package history owns the arithmetic of long conversations: how many tokens a text is,
// which earlier turns are worth mentioning again, and how a conversation that no longer
// fits is cut at a turn boundary so that nothing that matters is lost.
//
// It knows nothing of servers, databases or files: it works on the stored bytes of
// messages and returns texts. The levels and formulas are described in docs/history.md.
//
//	n := history.Estimate("你好 world") // 6
package history
