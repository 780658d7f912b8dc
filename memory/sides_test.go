package memory

import (
	"slices"
	"testing"
)

// A correction that turns "this, not that" round, or says that it is one, is never merged
// and leaves one active row: the new one.
func TestTurnedRound(t *testing.T) {
	for _, p := range [][2]string{
		{"Use pnpm, not npm", "Use npm, not pnpm"},
		{"use pnpm not npm", "use npm not pnpm"},
		{"Use pnpm rather than npm", "Use npm rather than pnpm"},
		{"Don't use npm, use pnpm", "Don't use pnpm, use npm"},
		{"Use pnpm, not npm", "Don't use pnpm, use npm"},
		{"Use pnpm, not npm", "Use npm"},
		{"Use pnpm, not npm", "Use yarn, not npm"},
		{"Prefer tabs over spaces", "Prefer spaces over tabs"},
		{"不要使用 var，使用 let", "使用 var，不要使用 let"},
		{"用 pnpm 而不是 npm", "用 npm 而不是 pnpm"},
		{"回答用中文，不要用英文", "回答用英文，不要用中文"},
		{"部署用 docker，不用 k8s", "部署用 k8s，不用 docker"},
		{"我们用 pnpm，不用 npm", "我们用 npm，不用 pnpm"},
		{"我喜欢猫，不喜欢狗", "我喜欢狗，不喜欢猫"},
		{"We deploy on Friday, not on Monday", "We deploy on Monday, not on Friday"},
		{"端口是 8080，不是 9090", "端口是 9090，不是 8080"},
		{"The staging host is alpha", "No, the staging host is beta"},
		{"My name is Alice", "That's wrong, my name is Bob"},
		{"Backups run at 3am", "No, backups run at 4am"},
		{"我现在住在上海", "不对，我其实住在杭州"},
		{"数据库是 MySQL", "错了，数据库是 PostgreSQL"},
		{"测试服务器是 alpha", "更正：测试服务器是 beta"},
		{"备份每天三点", "备份每天四点"},
		{"备份每天三点", "备份每天4点"},
		{"日志保留七天", "日志保留30天"},
	} {
		f := newService(t)
		f.add(t, p[0])
		if r := f.add(t, p[1]); r.Action != ActionSuperseded {
			t.Errorf("%q, %q: %s", p[0], p[1], r.Action)
		}
		if got := f.active(t); !slices.Equal(got, p[1:]) {
			t.Errorf("%q, %q: active %q", p[0], p[1], got)
		}
	}
	// What the old text says of something else stays.
	f := newService(t)
	f.add(t, "Use pnpm, not npm. Tests live in spec/.")
	f.add(t, "Use npm, not pnpm")
	if got := f.active(t); len(got) != 2 || !slices.Contains(got, "Tests live in spec/.") && !slices.Contains(got, "Tests live in spec/") {
		t.Errorf("active %q", got)
	}
}

// The same in other words is one row; the opposite about something else is no correction.
func TestSides(t *testing.T) {
	for _, p := range [][2]string{
		{"备份每天三点", "备份每天3点"}, {"会议在三点", "会议在 3 点"}, {"日志保留七天", "日志保留7天"},
		{"Use pnpm, not npm", "Use pnpm, never npm"}, {"不要使用 var，使用 let", "使用 let，不要使用 var"}, {"回答用中文，不要用英文", "回答要用中文，不用英文"},
		{"My name is Bob", "Wrong, my name is Bob"},
	} {
		if v := judge(p[0], p[1]); v.rel != merges {
			t.Errorf("%q, %q: %s (%s)", p[0], p[1], relNames[v.rel], v.reason)
		}
	}
	for _, p := range [][2]string{
		{"Frontend uses pnpm, not npm", "Backend uses npm, not pnpm"}, {"前端用 pnpm，不用 npm", "后端用 npm，不用 pnpm"},
		{"Tests use mocks, not the database", "Production uses the database, not mocks"}, {"The API is public, not private", "The docs are private, not public"},
		{"回答用中文，不要用英文", "注释用英文，不要用中文"}, {"In the web repo use pnpm, not npm", "Use npm, not pnpm"},
		{"Use pnpm, not npm", "Use npm, not pnpm, for the docs"}, {"Use pnpm, not npm", "Maybe use npm, not pnpm"}, {"Use pnpm, not npm", "Use pnpm"},
		{"Login needs a password", "Login needs a password, not on Sundays"}, {"测试在本地跑，不在 CI 跑", "部署在 CI 跑，不在本地跑"},
		{"Alice reports to Bob, not Carol", "Bob reports to Alice, not Carol"}, {"never push to main", "never push to develop"},
	} {
		if v := judge(p[0], p[1]); v.rel == merges || v.rel == replaces {
			t.Errorf("%q, %q: %s (%s)", p[0], p[1], relNames[v.rel], v.reason)
		}
	}
}
