package memory

import (
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/memory/segment"
)

// slotKind says what a word of a statement can be compared as.
type slotKind byte

const (
	slotWord   slotKind = iota
	slotNumber          // a number, with its unit
	slotTime            // an hour, weekday, date, month
	slotName            // a proper name, identifier, path, version, address
)

// slot is one word of a statement that carries meaning.
type slot struct {
	key  string // what is compared: folded, stemmed, numbers in digits
	kind slotKind
	pred bool // a verb or copula that ties a value to a subject
	prep bool // a preposition came right before
}

// statement is a text taken apart for comparing.
type statement struct {
	text    string
	bare    string
	slots   []slot
	negated bool // an odd number of negations
	weak    bool // hedged: may, maybe, sometimes
	han     bool
	first   bool // begins with a copula-free command: use, always, never …
	also    bool // says of itself that it comes on top
	newer   bool // says of itself that something changed
	quest   bool
	signs   string   // signs that are not the punctuation of a sentence, outside of identifiers
	retired []string // what it says is gone
	toks    []token
	body    []slot   // the slots that carry meaning beside verbs like be
	parts   []string // its clauses
	sides   *sides   // what it affirms and denies, nil when it denies nothing
	skip    int      // clauses of the text before the first of parts: "No, …"
	fixes   bool     // it begins with such a mark, which toks, body and parts leave out
	model   *Weights // in place of the fitted model, for evaluation
}

var numeralHan = map[rune]int{'零': 0, '〇': 0, '一': 1, '二': 2, '两': 2, '三': 3, '四': 4, '五': 5, '六': 6, '七': 7, '八': 8, '九': 9}

// hanNumber reads a Chinese numeral; ok is false when rs is none.
func hanNumber(rs []rune) (n float64, ok bool) {
	total, section, digit, any := 0, 0, -1, false
	plain := true
	for _, r := range rs {
		if strings.ContainsRune("十百千万亿", r) {
			plain = false
		}
	}
	if plain {
		v := 0
		for _, r := range rs {
			d, is := numeralHan[r]
			if !is {
				return 0, false
			}
			v, any = v*10+d, true
		}
		return float64(v), any
	}
	for _, r := range rs {
		if d, is := numeralHan[r]; is {
			digit, any = d, true
			continue
		}
		unit := map[rune]int{'十': 10, '百': 100, '千': 1000, '万': 10000, '亿': 100000000}[r]
		if unit == 0 {
			return 0, false
		}
		any = true
		if unit >= 10000 {
			if digit > 0 {
				section += digit
			}
			if section == 0 {
				section = 1
			}
			total += section * unit
			section = 0
		} else {
			if digit < 0 {
				digit = 1
			}
			section += digit * unit
		}
		digit = -1
	}
	if digit > 0 {
		section += digit
	}
	return float64(total + section), any
}

var wordNumbers = map[string]float64{"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
	"ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18,
	"nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
	"hundred": 100, "thousand": 1000, "million": 1e6, "billion": 1e9, "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5,
	"twice": 2, "once": 1, "half": 0.5, "dozen": 12, "double": 2, "triple": 3}

var timeWords = map[string]string{}

func init() {
	for i, d := range []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"} {
		timeWords[d], timeWords[d+"s"], timeWords[d[:3]] = "wd"+strconv.Itoa(i+1), "wd"+strconv.Itoa(i+1), "wd"+strconv.Itoa(i+1)
	}
	delete(timeWords, "sun")
	delete(timeWords, "sat")
	for i, m := range []string{"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"} {
		if m != "may" {
			timeWords[m] = "mo" + strconv.Itoa(i+1)
			if m != "march" {
				timeWords[m[:3]] = "mo" + strconv.Itoa(i+1)
			}
		}
	}
	for _, w := range []string{"morning", "evening", "afternoon", "night", "noon", "midnight", "daily", "weekly", "monthly", "yearly", "hourly", "today", "tomorrow",
		"yesterday", "tonight", "spring", "summer", "autumn", "winter", "上午", "下午", "早上", "晚上", "凌晨", "中午", "傍晚", "夜里", "今天", "明天", "昨天", "后天", "每天", "每周", "每月", "每年", "周末"} {
		timeWords[w] = w
	}
}

// synonyms bring words to one key where the difference is never a changed value. Groups
// are of the kind that notes about people and programs use; the first is the key.
var synonymGroups = []string{
	"use uses used using utilize 使用 用 采用 选用 运用 利用",
	"like likes liked love loves enjoy enjoys 喜欢 喜爱 爱 热爱 爱好",
	"prefer prefers preferred preference 偏好 偏爱 倾向 更喜欢",
	"must need needs require requires required 必须 需要 务必 得 须 要求",
	"store stores stored save saves saved keep keeps kept retain retained 存储 保存 存放 保管 储存 保留",
	"run runs running execute executes executed launch 运行 执行 跑",
	"document documentation docs 文档",
	"repo repository repositories 仓库 代码库",
	"database databases db 数据库",
	"delete deletes deleted remove removes removed 删除 移除 删掉",
	"fix fixes fixed repair repairs 修复 修正",
	"config configuration configurations 配置",
	"dir directory directories folder folders 目录 文件夹",
	"commit commits committed committing 提交",
	"reply replies answer answers response responses 回复 回答 答复",
	"listen listens listening 监听", "timezone 时区", "begin begins start starts started 开始 启动",
	"movie movies film films 电影", "big large huge", "fast quick rapid", "buy buys purchase purchases bought 购买 买", "locate located 位于 处于", "person man gentleman guy someone", "onto on", "begin start", "say state tell",
	"设置 设 设定 配置为 设置为 设为", "每周 每星期", "用户 user users", "项目 工程 project", "程序 应用 app application", "什么 啥", "怎么 怎样 如何 咋 怎么样", "为什么 为何 为啥", "多少 几", "能 能够 可以 可", "手机 手机号码 手机号", "还款 还钱 还", "哪里 哪儿 在哪",
}

// antonymGroups are words of which a statement can hold one or the other: sides divided by
// a bar.
var antonymGroups = []string{
	"like 喜欢 love | dislike dislikes hate hates 讨厌 厌恶 反感", "enable enables enabled on 开启 启用 打开 开 | disable disables disabled off 关闭 停用 禁用 关",
	"allow allows allowed permit permitted 允许 可以 准许 许可 | forbid forbids forbidden prohibit prohibited deny disallow ban banned 禁止 不准 不许 不得 严禁",
	"always 总是 始终 一律 一直 | never 从不 决不 绝不 永不", "before 之前 以前 前 先 | after 之后 以后 后 再",
	"increase increases increased raise raised grow more 增加 提高 上升 增 增大 | decrease decreases decreased reduce reduced lower less 减少 降低 下降 减 减小",
	"concise short brief terse 简洁 简短 简单 精简 | detailed long verbose lengthy 详细 冗长 复杂 详尽",
	"true 真 | false 假", "yes | no", "add added 添加 新增 加入 | remove removed delete deleted 删除 移除 去掉",
	"required 必须 必需 必要 | optional 可选 不必 无需", "tabs 制表符 | spaces 空格", "好 | 坏 差", "many 多 | few 少",
	"accept accepted 接受 同意 | reject rejected refuse refused 拒绝 反对", "enough 足够 | insufficient 不足", "借 | 还", "with | without",
}

// qualifierGroups are antonyms that also tell things apart: the left and the right panel,
// the upload and the download limit. Before the verb they say which thing is meant.
var qualifierGroups = []string{
	"dark 深色 暗色 黑色 | light bright 浅色 亮色 白色", "public 公开 公有 | private 私有 私密", "first 最先 | last 最后",
	"min minimum least 最少 最小 最低 至少 | max maximum most 最多 最大 最高 至多",
	"success succeed succeeded pass passed passes 成功 通过 | failure fail failed fails 失败", "open opened 开放 | close closed closes 关闭 封闭",
	"left 左 左边 左侧 | right 右 右边 右侧", "up 上 | down 下", "hot 热 | cold 冷", "buy bought 买 购买 | sell sold 卖 出售",
	"start started begin 开始 | stop stopped end ended finish 结束 停止", "internal 内部 内网 | external 外部 外网",
	"sync synchronous 同步 | async asynchronous 异步", "frontend 前端 | backend 后端", "import 导入 | export 导出",
	"asc ascending 升序 | desc descending 降序", "win won 赢 | lose lost 输", "old 旧 | new 新", "高 high | 低 low", "早 early | 晚 late",
	"in 进 入 | out 出", "upload 上传 | download 下载", "男 male man | 女 female woman",
}

type lexicon struct {
	synonym map[string]string
	side    map[string][]int // word → signed group numbers, + left, − right
}

var lexiconOf = sync.OnceValue(func() *lexicon {
	l := &lexicon{map[string]string{}, map[string][]int{}}
	for _, g := range synonymGroups {
		ws := strings.Fields(g)
		for _, w := range ws {
			l.synonym[stemOf(w)] = ws[0]
		}
	}
	for i, g := range append(append([]string{}, antonymGroups...), qualifierGroups...) {
		left, right, _ := strings.Cut(g, "|")
		put := func(words string, n int) {
			for _, w := range strings.Fields(words) {
				k := stemOf(w)
				l.side[k] = append(l.side[k], n)
				// A statement holds the first of a group of synonyms in place of each.
				if c := l.synonym[k]; c != "" && c != k && !slices.Contains(l.side[c], n) {
					l.side[c] = append(l.side[c], n)
				}
			}
		}
		put(left, i+1)
		put(right, -i-1)
	}
	return l
})

func stemOf(w string) string {
	if ascii(w) {
		return stem(w)
	}
	return w
}

// opposite says whether two words stand on opposite sides of a pair of antonyms, and
// whether only of one that also tells things apart.
func (l *lexicon) opposite(a, b string) (yes, qualifies bool) {
	for _, x := range l.side[a] {
		for _, y := range l.side[b] {
			if x == -y {
				if max(x, y) <= len(antonymGroups) {
					return true, false
				}
				yes, qualifies = true, true
			}
		}
	}
	return yes, qualifies
}

var predicates = set(`is are was were be = equals means use prefer store listen run set live lives work works called named name expire expires return returns
	是 为 叫 设为 设置 改为 改成 换成 变成 等于 名叫 住 住在 位于 在 放在 监听 保留 写入 选择 达到 限制 定在 返回 开 过期 存储 写成 搬到 属于 担任 用于`)

// exclusive are verbs that have one object at a time even without another word in common.
var exclusive = stems(`live lives reside born named called married 住 住在 居住 叫 名叫 位于 出生 属于 生日`)

var prepositions = set(`in for on at of when during under over inside within to from by with into onto per while if unless`)

var alsoWords = set(`also too another additionally additional second extra besides plus backup secondary 也 还 另外 另一 另一个 此外 备用 额外 还有 又`)
var newerWords = set(`now changed change changes switched switch moved migrated updated update actually correction instead longer anymore gone 现在 改 改为 改成 换 换成 换为 改用 变成 变为 更新 更新为 迁移 搬到 搬 其实 更正 不对 已经 已 不再 以后 今后 从今 从现在起 目前`)
var hedges = set(`may maybe perhaps might sometimes occasionally probably possibly 可能 也许 或许 有时 偶尔 大概`)
var fillers = set(`now currently already actually please remember note just really also always 现在 已经 已 目前 请 记住 记得 注意 其实 以后 今后 统一 都 均 所有 一律 全部 全都 会 要 应 应该 应当 将 会议`)

var questionHan = lazy(`[?？]\s*$|(吗|呢|么)[？?。\s]*$`)

// lazy compiles an expression when it is first used.
func lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

var pronouns = map[string]string{"i": "user", "me": "user", "my": "user", "mine": "user", "we": "user", "our": "user", "us": "user", "user's": "user", "我": "user", "我们": "user", "我的": "user", "用户": "user", "咱们": "user", "本人": "user", "俺": "user"}

var clockForm = lazy(`\d{1,2}[:：]\d{2}(?::\d{2})?|\d{4}[-/]\d{1,2}[-/]\d{1,2}`)

// hanNumeral finds numerals in Chinese text, with the word they are in so that 统一 or 一起
// are not numbers.
var hanNumeral = lazy(`(百分之)?([零〇一二两三四五六七八九十百千万亿]+)(分之|点半|点|个月|个|分钟|小时|天|周|月|年|日|号|次|兆|楼|层|岁|元|块|秒|倍|成|区|级|条|人|台|位|种|行|列|页|章|版|度|字节|空格|格|季度|代|期)?`)

var notNumeral = set(`统一 一起 一样 一直 一般 唯一 万一 一定 一些 一下 一旦 一致 一律 一切 千万 十分 一边 一会 一点 单一 第一 进一步 一种 之一 一向 一共 一半 一方面 一时 逐一 一次性 一并 一块 一面 一同 一带 万能 百度 百科 五花八门 一键 任一 某一 每一 一边 二维码 三星 八卦 四川 九江 三亚 一一 同一 另一`)

// analyse takes a text apart.
func analyse(c Cutter, text string) *statement {
	whole := text
	text, fix := corrects(text)
	plain := usual(text)
	folded := fold(plain)
	s := &statement{text: whole, bare: bareOf(folded), newer: fix, fixes: fix}
	lex := lexiconOf()
	s.quest = questionHan().MatchString(folded)
	toks := tokens(c, plain, false)
	s.toks = toks
	negs := 0
	prep := false
	for i, t := range toks {
		w := t.text
		if t.kind == segment.Chinese {
			s.han = true
		}
		if alsoWords[w] {
			s.also = true
		}
		if newerWords[w] {
			s.newer = true
		}
		if hedges[w] {
			s.weak = true
		}
		if i == 0 {
			s.first = commands[w]
		}
		if n := s.negation(toks, i); n > 0 {
			negs += n
			if n == 1 && negations[w] {
				if rest := strings.TrimLeft(w, "不没未非勿别无从并切请莫休"); rest != w && rest != "" && t.kind == segment.Chinese && !emptyRest[rest] {
					s.addHan(lex, rest, prep)
				}
			}
			if negations[w] || strings.HasSuffix(w, "n't") {
				continue
			}
		}
		if p, ok := pronouns[w]; ok {
			s.slots = append(s.slots, slot{key: p})
			continue
		}
		switch t.kind {
		case segment.Chinese:
			if fillers[w] || newerWords[w] && !predicates[w] {
				continue
			}
			if t.stop && !predicates[w] && !directional[w] && !predicates[lex.synonym[w]] {
				continue
			}
			if w == "的" || w == "了" {
				continue
			}
			if i > 0 && toks[i-1].kind == segment.Number && unitsHan[w] {
				// 3 点 is 三点
				if w = unitHan(strings.TrimSuffix(strings.TrimSuffix(w, "个"), "次")); w != "" {
					s.slots = append(s.slots, slot{key: w})
				}
				continue
			}
			s.addHan(lex, w, prep)
			prep = false
		case segment.Number:
			kind := slotNumber
			if i+1 < len(toks) && timeUnitsHan[toks[i+1].text] {
				kind = slotTime
			}
			s.slots = append(s.slots, slot{key: numberKey(w), kind: kind, prep: prep})
			prep = false
		case segment.Identifier:
			s.addIdent(w, prep)
			prep = false
		case segment.Other:
			s.slots = append(s.slots, slot{key: w, kind: slotWord, prep: prep})
		default:
			if prepositions[w] {
				prep = true
				if directional[w] && (w != "on" || i+1 == len(toks)) && w != "by" && w != "into" {
					s.slots = append(s.slots, slot{key: w, prep: true})
				}
				continue
			}
			if fillers[w] || (newerWords[w] && w != "moved") || (t.stop && !predicates[w] && !directional[w] && lex.side[t.stem] == nil) {
				continue
			}
			k := t.stem
			if v, ok := wordNumbers[w]; ok && !(w == "one" && t.stop) && w != "second" && w != "once" {
				s.slots = append(s.slots, slot{key: strconv.FormatFloat(v, 'f', -1, 64), kind: slotNumber, prep: prep})
				prep = false
				continue
			}
			if v, ok := timeWords[w]; ok {
				s.slots = append(s.slots, slot{key: v, kind: slotTime, prep: prep})
				prep = false
				continue
			}
			if syn, ok := lex.synonym[k]; ok {
				k = syn
			}
			sl := slot{key: k, prep: prep, pred: predicates[w] || predicates[k]}
			if t.name || (s.han && !sl.pred && !lex.known(t.stem)) || !s.han && i == 0 && false {
				sl.kind = slotName
			}
			s.slots = append(s.slots, sl)
			prep = false
		}
	}
	if s.han { // ASCII words before the first Chinese one are names too
		for i := range s.slots {
			if sl := &s.slots[i]; sl.kind == slotWord && !sl.pred && ascii(sl.key) && sl.key != "user" && lex.synonym[sl.key] == "" && lex.side[sl.key] == nil && len(sl.key) > 1 {
				sl.kind = slotName
			}
		}
	}
	s.negated = negs%2 == 1
	s.signs = signsOf(folded)
	s.retired = retired(c, folded)
	s.body, s.parts = s.content(), clauses(text)
	if fix {
		s.skip = len(clauses(whole)) - len(s.parts)
	}
	s.sides = s.sidesOf(c, text, folded, negs)
	return s
}

func (l *lexicon) known(k string) bool { return l.synonym[k] != "" || l.side[k] != nil }

var emptyRest = set(`会 能 要 是 有 用 必 得 许 准 可 应 该 再 了 过`)
var directional = set(`before after above below over under from to into out up down off on 先 后 前 再 上 下 里 外 从 到 向 被 把 给 对 比 by than without`)
var commands = set(`use always never do don't run deploy keep put make write prefer avoid send call ask reply answer 使用 禁止 不要 必须 总是 永远 请 务必 允许`)

// negation counts how the word at i turns the statement round: 0, 1, or 2 for a double one
// that cancels out.
func (s *statement) negation(toks []token, i int) int {
	w := toks[i].text
	switch {
	case strings.HasSuffix(w, "n't") || strings.HasSuffix(w, "n’t"):
		return 1
	case w == "no" && i+1 < len(toks) && toks[i+1].text == "longer":
		return 1
	case w == "longer":
		return 0
	case w == "without":
		return 0 // a property, kept as a word
	case w == "禁止" || w == "禁用" || w == "不准" || w == "不许":
		return 1
	case negations[w]:
		return 1
	}
	if toks[i].kind == segment.Chinese {
		r, n := utf8.DecodeRuneInString(w)
		if n < len(w) && strings.ContainsRune("不未没勿", r) && !positiveHan[w] {
			return 1
		}
	}
	return 0
}

// positiveHan begin with a character of negation without being one.
var positiveHan = set(`不断 不同 不仅 不但 不过 不管 不论 不如 不久 不妨 不错 未来 没收 不禁 不愧 不住 不只 不光 不满 不少 未必 不然 不动产 不锈钢 没事 不足`)

func (s *statement) addHan(lex *lexicon, w string, prep bool) {
	if p, ok := pronouns[w]; ok {
		s.slots = append(s.slots, slot{key: p})
		return
	}
	if v, ok := timeWords[w]; ok {
		s.slots = append(s.slots, slot{key: v, kind: slotTime, prep: prep})
		return
	}
	if !notNumeral[w] {
		if m := hanNumeral().FindStringSubmatchIndex(w); m != nil && m[4] >= 0 {
			num := w[m[4]:m[5]]
			whole := utf8.RuneCountInString(w)
			if v, ok := hanNumber([]rune(num)); ok && (whole <= 8) && (m[1]-m[0] == len(w) || m[6] >= 0 || m[0] > 0 && (strings.HasPrefix(w, "周") || strings.HasPrefix(w, "星期") || strings.HasPrefix(w, "每周") || strings.HasPrefix(w, "第") || strings.HasPrefix(w, "东") || strings.HasPrefix(w, "西") || strings.HasPrefix(w, "每星期") || strings.HasPrefix(w, "礼拜"))) {
				key := strconv.FormatFloat(v, 'f', -1, 64)
				kind := slotNumber
				rest := w[:m[0]] + w[m[5]:]
				if m[2] >= 0 {
					key += "%"
					rest = ""
				}
				if r, _ := utf8.DecodeLastRuneInString(w[:m[0]]); r == '周' || r == '期' || strings.HasPrefix(rest, "点") || strings.HasPrefix(rest, "月") || rest == "日" || rest == "号" || rest == "年" {
					kind = slotTime
					if r == '周' || r == '期' {
						key = "wd" + key
						rest = ""
					}
				}
				s.slots = append(s.slots, slot{key: key, kind: kind, prep: prep})
				rest = strings.TrimSuffix(strings.TrimSuffix(rest, "个"), "次")
				if rest = unitHan(rest); rest != "" {
					s.slots = append(s.slots, slot{key: rest})
				}
				return
			}
		}
	}
	key := w
	if syn, ok := lex.synonym[w]; ok {
		key = syn
	}
	s.slots = append(s.slots, slot{key: key, prep: prep, pred: predicates[w] || predicates[key]})
}

var (
	unitsHan     = set(`点 点钟 月 日 号 年 分钟 小时 天 周 个月 个 次 秒 分 兆 兆字节`)
	timeUnitsHan = set(`点 点钟 月 日 号 年`)
)

func unitHan(u string) string {
	switch u {
	case "兆", "兆字节":
		return "mb"
	case "分钟", "分":
		return "minut"
	case "小时", "点", "点钟":
		return "hour"
	case "天", "日", "号":
		return "dai"
	case "个月", "月":
		return "month"
	case "年":
		return "year"
	case "秒":
		return "second"
	}
	return u
}

// numberKey brings a number to one form: no leading zeros or separators, the unit behind.
func numberKey(w string) string {
	w = strings.ReplaceAll(w, ",", "")
	i := 0
	for i < len(w) && (w[i] >= '0' && w[i] <= '9' || w[i] == '.') {
		i++
	}
	num, unit := w[:i], w[i:]
	if v, err := strconv.ParseFloat(num, 64); err == nil && strings.Count(num, ".") <= 1 && math.Abs(v) < 1e15 && !strings.Contains(num, ".") {
		num = strconv.FormatFloat(v, 'f', -1, 64)
	}
	return num + unit
}

// addIdent adds an identifier; name=value and name:value fall into two.
func (s *statement) addIdent(w string, prep bool) {
	if name, value, ok := strings.Cut(w, "="); ok && name != "" && value != "" && !strings.ContainsAny(name, "/:?") {
		s.slots = append(s.slots, slot{key: name, kind: slotName, prep: prep}, slot{key: "=", pred: true})
		if strings.Trim(value, "0123456789.") == "" {
			s.slots = append(s.slots, slot{key: numberKey(value), kind: slotNumber})
		} else {
			s.slots = append(s.slots, slot{key: value, kind: slotName})
		}
		return
	}
	kind := slotName
	if clockForm().FindString(w) == w {
		kind = slotTime
	}
	s.slots = append(s.slots, slot{key: w, kind: kind, prep: prep})
}

// content are the slots that carry meaning beside verbs like be.
func (s *statement) content() []slot {
	out := make([]slot, 0, len(s.slots))
	for _, v := range s.slots {
		if !copula[v.key] {
			out = append(out, v)
		}
	}
	return out
}

var copula = set(`is are was were be am = 是 为 在 叫 了 to 把 to`)

// clauses divides a text at the ends of sentences and half sentences.
func clauses(text string) []string {
	var out []string
	start := 0
	flush := func(end int) {
		if c := strings.TrimSpace(text[start:end]); c != "" {
			out = append(out, c)
		}
	}
	rs := []rune(text)
	pos := 0
	for i, r := range rs {
		n := utf8.RuneLen(r)
		if n < 0 {
			n = 1
		}
		cut := strings.ContainsRune("。；;！\n!？", r) ||
			(r == '.' || r == '?') && (i+1 == len(rs) || unicode.IsSpace(rs[i+1])) ||
			(r == '，' || r == ',' && (i+1 == len(rs) || unicode.IsSpace(rs[i+1]) || segment.IsHan(rs[i+1])))
		if cut {
			flush(pos)
			start = pos + n
		}
		pos += n
	}
	if start < len(text) {
		flush(len(text))
	}
	return out
}

type pattern struct {
	re *regexp.Regexp
	// strong patterns say that the thing is gone whatever it was for
	strong bool
}

var retirePatterns = sync.OnceValue(func() []pattern {
	const thing = `([\p{L}\p{N}_./+#-]+(?: [\p{L}\p{N}_./+#-]+){0,2})`
	var out []pattern
	for _, p := range []struct {
		re     string
		strong bool
	}{
		{thing + ` (?:is|are|was|were|has been|have been|got) (?:now |already |all )?(?:gone|removed|deprecated|obsolete|retired|dead|deleted|dropped|decommissioned|shut down|no longer (?:used|supported|available|there|in use))`, true},
		{`(?:no longer|not any ?more|stop|stopped|quit) (?:use|uses|using|run|running)? ?` + thing, true},
		{`(?:don't|do not|doesn't|never) (?:use|run|call) ` + thing + ` (?:any ?more|any longer|again)`, true},
		{`instead of (?:the |a |our )?` + thing, false},
		{`(?:replaced?|replaces|replacing) (?:the |our )?` + thing + ` (?:with|by)`, true},
		{`(?:switch|switched|switching|migrate|migrated|migrating|move|moved|moving|changed?) (?:away )?from (?:the |our )?` + thing + ` to`, true},
	} {
		out = append(out, pattern{regexp.MustCompile(p.re), p.strong})
	}
	const it = `([\p{L}\p{N}_./+#-]{1,24}?)`
	for _, p := range []struct {
		re     string
		strong bool
	}{
		{`(?:^|[，。；,;\s])` + it + ` ?(?:已经|已|都)?(?:被)?(?:废弃|弃用|作废|下线|停用|删除|移除|淘汰|没了|不用了|不再使用|不存在了|取消)(?:了|$|[，。；,;\s])`, true},
		{`不再(?:使用|用|采用|跑|支持) ?` + it + `(?:了|$|[，。；,;\s])`, true},
		{`(?:不要|别|不)再?用 ?` + it + ` ?了`, true},
		{`从 ?` + it + ` ?(?:迁移|换|切换|改|搬|迁|转|升级)(?:到|成|为|至)`, true},
		{`把 ?` + it + ` ?(?:换|改|替换|更换|升级)(?:成|为|到)`, true},
		{`(?:代替|替换|取代|替代)(?:了)? ?` + it + `(?:了|$|[，。；,;\s])`, true},
		{`而不是 ?` + it + `(?:$|[，。；,;\s])`, false},
	} {
		out = append(out, pattern{regexp.MustCompile(p.re), p.strong})
	}
	return out
})

// retireHints are pieces of which every text holds one that a pattern can match.
var retireHints = []string{"gone", "remov", "deprecat", "obsolete", "retired", "dead", "deleted", "dropped", "decommission", "shut down", "longer", "more", "stop", "quit", "again",
	"instead", "replac", "switch", "migrat", "mov", "chang", "废弃", "弃用", "作废", "下线", "停用", "删除", "移除", "淘汰", "没了", "不用", "不再", "不存在", "取消", "要再用", "别再用", "从", "把", "代替", "替换", "取代", "替代", "而不是"}

func hasAny(s string, pieces []string) bool {
	for _, p := range pieces {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}

// retired lists the words (stems) of which a text says that they are no longer so; a
// leading "?" marks those that are only set aside in this matter.
func retired(c Cutter, folded string) []string {
	if len(folded) > 2000 || !hasAny(folded, retireHints) {
		return nil
	}
	var out []string
	for _, p := range retirePatterns() {
		for _, m := range p.re.FindAllStringSubmatch(folded, -1) {
			for _, t := range tokens(c, m[1], false) {
				if t.stop || fillers[t.text] || pronouns[t.text] != "" || predicates[t.text] {
					continue
				}
				if p.strong {
					out = append(out, t.stem)
				} else {
					out = append(out, "?"+t.stem)
				}
			}
		}
	}
	sort.Strings(out)
	return out
}

// signsOf are the mathematical and programming signs of a text that stand alone.
func signsOf(folded string) string {
	var b strings.Builder
	for i := 0; i < len(folded); i++ {
		c := folded[i]
		if strings.IndexByte("+-*/=<>&|^%", c) < 0 {
			continue
		}
		before, after := i > 0 && folded[i-1] != ' ', i+1 < len(folded) && folded[i+1] != ' '
		if (!before || !after) && c != '%' || strings.IndexByte("=<>+", c) >= 0 {
			b.WriteByte(c)
		}
	}
	return b.String()
}
