package memory

import (
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core"
	"github.com/lingjiyidong/lj/core/secret"
)

type captureRule struct {
	re *regexp.Regexp
	// keep leaves the beginning in the text: 以后都用 make ship is the statement itself.
	keep bool
}

var captureRules = sync.OnceValue(func() []captureRule {
	var out []captureRule
	for _, r := range []struct {
		re   string
		keep bool
	}{
		{`^(?:请|帮我|麻烦|你)?(?:务必|一定要?)?(?:记住|记下来?|牢记|记得)(?:了|一下|这一?点|这件事)?\s*[:：，,、]?\s*(.+)$`, false},
		{`^((?:从现在(?:开始|起)|从今(?:以后|往后)|以后|今后|往后)[^?？]{2,})$`, true},
		{`(?i)^(?:please |pls |can you |could you )?(?:always )?remember(?: this| for (?:later|ever|next time))?\s*(?::|,|-|—| that | to )\s*(.+)$`, false},
		{`(?i)^(?:please )?remember\s+((?:my|the|our|i|we|this project|it|always|never|not)\b.+)$`, false},
		{`(?i)^(?:please )?(?:note|make a note|keep in mind|don't forget|do not forget|memorize)(?: that| this)?\s*[:,]?\s+(.+)$`, false},
		{`(?i)^((?:from now on|in future|in the future|going forward)[, ].{3,})$`, true},
	} {
		out = append(out, captureRule{regexp.MustCompile(r.re), r.keep})
	}
	return out
})

// questionLike are beginnings of what follows 记得 or remember that ask instead of tell.
var questionLike = lazy(`(?i)[?？吗]\s*$|^(?:when|what|how|who|where|why|if you)\b|^(?:吗|么|多少|什么|怎么)`)

// FromUserText finds, by rule, what a message of the user asks to be remembered: lines
// that begin with 记住, 请记住, 以后, remember …, from now on …. Quoted lines and code
// blocks are what others wrote and are left out, questions too. The text must be what the
// person typed, without files or piped input.
func FromUserText(text string) []Item {
	var out []Item
	fence := false
	for line := range strings.SplitSeq(text, "\n") {
		t := strings.TrimSpace(line)
		if strings.HasPrefix(t, "```") || strings.HasPrefix(t, "~~~") {
			fence = !fence
			continue
		}
		if fence || t == "" || strings.HasPrefix(t, ">") || strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t") {
			continue
		}
		t = strings.TrimSpace(strings.TrimLeft(t, "-*•"))
		for _, r := range captureRules() {
			m := r.re.FindStringSubmatch(t)
			if m == nil {
				continue
			}
			content := strings.TrimSpace(m[1])
			if utf8.RuneCountInString(content) < 2 || questionLike().MatchString(content) || questionLike().MatchString(t) || len(secret.Markers(content)) > 0 {
				break
			}
			out = append(out, capture(content))
			break
		}
	}
	return out
}

const pipedOpen, pipedClose = "<piped>\n", "\n</piped>"

// WithPiped is what a message of the user is stored as when a part of it came through a
// pipe: the words of the person, then the rest in a mark that it can't close from within.
func WithPiped(typed, piped string) string {
	if piped == "" {
		return typed
	}
	if typed != "" {
		typed += "\n\n"
	}
	return typed + pipedOpen + strings.ReplaceAll(piped, "</piped", "<\u200b/piped") + pipedClose
}

// OwnWords is what of a stored message the person said: without what WithPiped marked.
func OwnWords(content string) string {
	for {
		i := strings.Index(content, pipedOpen)
		if i < 0 {
			return content
		}
		rest := content[i+len(pipedOpen):]
		n := strings.Index(rest, pipedClose)
		if n < 0 {
			return content // nothing of it was stored by WithPiped
		}
		content = strings.TrimRight(content[:i], "\n") + rest[n+len(pipedClose):]
	}
}

var projectWords = lazy(`(?i)本项目|这个项目|该项目|此项目|这个仓库|本仓库|这里的?代码|\b(?:this|the) (?:project|repo|repository|codebase)\b`)
var ruleWords = lazy(`(?i)^(?:always|never|do not|don't|must|use|run|avoid|prefer|write|reply|answer|keep|make sure|from now on|in future|going forward)\b|\b(?:you|agents?|assistants?|we|everyone) (?:must|should|shall|have to|need to|are to)\b|\bmust (?:always|never|not|be)\b|\b(?:before|after) (?:each|every) \w+,? (?:run|use|call|do)\b|必须|务必|不要|不准|禁止|别再?|一律|总是|永远|以后|今后|从现在|统一`)
var preferenceWords = lazy(`(?i)\b(?:prefer|like|love|hate|dislike|favou?rite)\b|喜欢|偏好|讨厌|习惯|更愿意|最爱`)

// capture makes an item of what the user said, with category and priority by its words.
func capture(content string) Item {
	it := Item{Content: content, Source: core.SourceUser, Importance: 4, Force: true}
	it.Category = Categorise(content)
	p := PriorityOf(it.Category)
	it.Priority = &p
	if projectWords().MatchString(content) {
		it.Scope = core.ScopeProject
	}
	return it
}

// Categorise guesses the category of a statement from its words: instruction, preference
// or fact.
func Categorise(content string) string {
	switch {
	case preferenceWords().MatchString(content):
		return core.MemoryPreference
	case ruleWords().MatchString(content):
		return core.MemoryInstruction
	}
	return core.MemoryFact
}
