package i18n

// chinese holds the Chinese form of each English text.
var chinese = map[string]string{
	"A coding agent that grows its own tools": "会给自己造工具的编程助手",
	"no sessions yet":                         "还没有会话",
	"nothing found":                           "没有找到",
	"session %s is removed":                   "会话 %s 已删除",
}
