package memory

import (
	"context"
	"strings"
	"testing"

	"github.com/lingjiyidong/lj/core"
)

func TestTellsCredential(t *testing.T) {
	for _, s := range []string{
		"my password is hunter2", "DB password: Xy7!kk29", "Remember that my password is hunter2", "密码是 hunter2", "密码是hunter2", "数据库密码：hunter2，别忘了",
		"The staging password is swordfish.", "password=letmein", "db_password = s3cr3t", "passwd: 123456", "口令为 芝麻开门", "密码是“芝麻开门”", "管理员密码改成 abc12345 了",
		"the passphrase is correct horse battery staple", "the password for the staging box is hunter2", "my api key is k9f8s7d6f5", "token: a1b2c3d4e5f6", "密钥是 a8d7f6g5h4",
		"the API token 是 q1w2e3r4t5", "password hunter2", "hunter2 is my password", "use hunter2 as the password for staging", "hunter2 是我的密码", "my password is now Swordfish",
		"the password was changed to hunter2", "username: alice, password: hunter2", "Passwords are stored in Vault but my password is hunter2", `the password is "open sesame"`,
		"access key: AKX93JD83JD8", "client secret: 9fd8s7f9sd8f7", "my pass word is hunter2", "login alice, pwd: tiger99", "密码就是 qwerty", "wifi 密码：88888888", "pin code: 4711",
	} {
		if !tellsCredential(s) {
			t.Errorf("not seen: %q", s)
		}
	}
	for _, s := range []string{
		"password is required", "the password is stored in Vault", "passwords must have at least 12 characters", "password: at least 12 characters", "密码至少 12 位", "密码是至少 12 位",
		"密码：至少12位", "密码是必填项", "密码存在 Vault 里", "密钥放在 1Password", "the API key is in 1Password", "token is valid for 24h", "access tokens: 15m", "tokens: 128000", "token limit is 4096",
		"passwords are hashed with argon2id", "password hash: argon2id", "the secret to good tea is patience", "the token is a JWT signed with RS256", "token: RS256", "密码用 bcrypt 加密",
		"密码是 bcrypt 加密的", "the password field is optional", "password is optional", "my password manager is 1Password", "password: see 1Password", "password is $DB_PASSWORD", "password: DB_PASSWORD",
		"the password is read from ~/.pgpass", "secret: secret/db1", "credentials: bob@example.com", "credentials are in prod1.yaml", "tokenizer is gpt2", "the LED pin is GPIO13", "密码每 90 天更换",
		"密码是 90 天过期", "口令由运维保管", "密码错误时返回 401", "ssh private key is id_ed25519", "The password was rotated", "never log passwords or tokens", "the secret key is rotated monthly",
		"password reset emails come from noreply2@example.com", "API key goes in the X-Key header", "the token is case-sensitive", "令牌 24 小时有效", "the password is the same as for LDAP", "password: ********",
		"password: TBD", "密码为空", "密码不能为空", "Ask Ann for the password", "the passphrase is very long", "use token auth for v2", "password login is disabled on web1",
		"password = request.form['password']", "hashed_password = generate_password_hash(password, method='sha256')", `error: "username and password are required"}), 400`, "1. **Password Hashing**:",
		"Have I obtained an API key for this project?", `client.login(password="testpassword")`,
	} {
		if tellsCredential(s) {
			t.Errorf("no credential: %q", s)
		}
	}
}

// A password in words is refused on every way in, and the refusal does not repeat it.
func TestCredentialIsRefused(t *testing.T) {
	f := newService(t)
	_, err := f.Add(t.Context(), Item{Content: "my password is hunter2"})
	if core.KindOf(err) != core.KindRefused || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
	if _, err := f.Add(t.Context(), Item{Content: "the box is heron", Tags: []string{"password: hunter2"}}); core.KindOf(err) != core.KindRefused {
		t.Errorf("as a tag: %v", err)
	}
	if r, err := f.Add(t.Context(), Item{Content: "the box is heron", Context: "the box is heron, my password is hunter2"}); err != nil {
		t.Error(err)
	} else if hits, err := f.Search(t.Context(), "hunter2", 5, true); err != nil || len(hits) != 0 {
		t.Errorf("%+v: in the context: %+v %v", r, hits, err)
	}
	text := "the box is hunter"
	if _, err := f.Edit(t.Context(), 1, Change{Content: &text}); err != nil {
		t.Error(err)
	}
	text = "密码是 hunter2"
	if _, err := f.Edit(t.Context(), 1, Change{Content: &text}); core.KindOf(err) != core.KindRefused {
		t.Errorf("edited: %v", err)
	}
	im, err := f.ImportLines(t.Context(), strings.NewReader(`{"content":"DB password: Xy7!kk29"}`+"\n"+`{"content":"密码是 hunter2","state":"active"}`))
	if err != nil || im.Refused != 2 || strings.Contains(strings.Join(im.Problems, " "), "kk29") {
		t.Errorf("%+v %v", im, err)
	}
	ask := &scripted{answers: []string{`[{"content":"the user's password is hunter2","category":"fact"}]`}}
	log := fakeLog{{Seq: 1, Message: core.Message{Role: core.RoleUser, Content: "Please note my password is hunter2 and the box is called heron"}}}
	rep, err := f.Extract(t.Context(), ask, log, "s")
	if err != nil || len(rep.Results) != 0 {
		t.Errorf("%+v %v", rep, err)
	}
}

// fakeLog is the log of one conversation.
type fakeLog []core.StoredMessage

func (l fakeLog) Append(context.Context, string, ...core.StoredMessage) error { return nil }
func (l fakeLog) Messages(context.Context, string) ([]core.StoredMessage, error) {
	return l, nil
}
