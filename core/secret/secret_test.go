package secret_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lingjiyidong/lj/core/secret"
)

const provider = "sk-prov-0123456789abcdefghij"

func masker() *secret.Masker {
	m := secret.New([]byte("salt"))
	m.Add("OPENAI_API_KEY", provider)
	m.AddEnviron([]string{
		"TEA_API_KEY=tea-0123456789abcdef", "GITHUB_TOKEN=abcdefgh12345678", "KEYBOARD=us-international", "AUTHOR=somebody-long",
		"SSH_AUTH_SOCK=/tmp/ssh-agent.sock", "PWD=/home/someone/project", "DATABASE_URL=postgres://app:s3cretpass@db:5432/x",
		"SIGNING_KEY=-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA1234567890\nQRSTabcdefghijklmnopqrstuv\n-----END RSA PRIVATE KEY-----",
	})
	return m
}

func TestMask(t *testing.T) {
	m := masker()
	for _, c := range []struct{ in, gone, stays string }{
		{"key " + provider + " end", provider, "«secret:OPENAI_API_KEY:"},
		{"TEA_API_KEY=tea-0123456789abcdef", "tea-0123456789abcdef", "TEA_API_KEY="},
		{"token abcdefgh12345678.", "abcdefgh12345678", "token "},
		{"postgres://app:s3cretpass@db:5432/x", "s3cretpass", "postgres://app:"},
		{"curl https://bob:hunter2xyz@host/x", "hunter2xyz", "@host/x"},
		{"x MIIEowIBAAKCAQEA1234567890 y", "MIIEowIBAAKCAQEA1234567890", "x "},
		{"OTHER_SECRET=abcd1234efgh", "abcd1234efgh", "OTHER_SECRET="},
		{"export MY_TOKEN=\"qwertyuiop123\"", "qwertyuiop123", "export MY_TOKEN=\""},
		{"sk-ant-REDACTED", "api03", ""},
		{"ghp_abcdefghijklmnopqrstuvwxyz0123456789", "ghp_abc", "github-token"},
		{"AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE", "aws-key"},
		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijklmno", "eyJhbGci", "jwt"},
		{"-----BEGIN PRIVATE KEY-----\nAAAABBBBCCCC\n-----END PRIVATE KEY-----", "AAAABBBBCCCC", "BEGIN PRIVATE KEY"},
	} {
		got := m.Mask(c.in)
		if strings.Contains(got, c.gone) || !strings.Contains(got, c.stays) {
			t.Errorf("%q -> %q", c.in, got)
		}
		if again := m.Mask(got); again != got {
			t.Errorf("masking twice: %q -> %q", got, again)
		}
	}
	for _, same := range []string{
		"", "abc", "KEYBOARD=us-international", "AUTHOR=somebody-long", "/tmp/ssh-agent.sock", "token := getToken(ctx)", "API_KEY = os.Getenv(\"X\")",
		"API_KEY=$(cat file)", "apiKey=variableName1", "TOKEN=$OTHER_TOKEN_VALUE", "sk-short", "the task-list-of-many-words-here", "PASSWORD_FILE=/run/secrets/password",
		"SECRET=changeme", "http://host:8080/path@x", "for i=0;i<n", "PORT_KEY=12345678",
	} {
		if got := m.Mask(same); got != same {
			t.Errorf("%q was changed to %q", same, got)
		}
	}
}

func TestStreamFindsWhatIsCut(t *testing.T) {
	m := masker()
	text := "first line\nAPI: " + provider + "\n茶馆 TEA_API_KEY=tea-0123456789abcdef end\n" +
		"-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA1234567890\nQRSTabcdefghijklmnopqrstuv\n-----END RSA PRIVATE KEY-----\n" +
		strings.Repeat("long line without end ", 2000) + provider + strings.Repeat("x", 40000) + " " + provider + "\nlast"
	want := m.Mask(text)
	for _, n := range []int{1, 2, 3, 7, 64, 1000, len(text)} {
		s := m.Stream()
		var out strings.Builder
		for p := text; p != ""; {
			k := min(n, len(p))
			out.WriteString(s.Push(p[:k]))
			p = p[k:]
		}
		out.WriteString(s.Close())
		if strings.Contains(out.String(), provider) || strings.Contains(out.String(), "MIIEow") || strings.Contains(out.String(), "tea-0123") {
			t.Errorf("pieces of %d: a secret came through", n)
		}
		if n > 3 && out.String() != want {
			t.Errorf("pieces of %d differ from the whole", n)
		}
		if !utf8.ValidString(out.String()) {
			t.Errorf("pieces of %d: not UTF-8", n)
		}
	}
}

// Whole lines are shown at once: a person watches them.
func TestStreamIsPrompt(t *testing.T) {
	s := masker().Stream()
	if got := s.Push("one\ntwo"); got != "one\n" {
		t.Errorf("got %q", got)
	}
}

func TestRestore(t *testing.T) {
	m := masker()
	file := "TEA_API_KEY=tea-0123456789abcdef\nNAME=x\nOTHER_SECRET=abcd1234efgh\n"
	masked := m.Mask(file)
	edited := strings.Replace(masked, "NAME=x", "NAME=y", 1)
	got, missing := m.Restore(edited, file)
	if missing != nil || got != strings.Replace(file, "NAME=x", "NAME=y", 1) {
		t.Errorf("got %q, missing %v", got, missing)
	}
	// Into another file a masked value does not go.
	if _, missing := m.Restore(masked, "nothing here"); len(missing) != 2 {
		t.Errorf("missing %v", missing)
	}
	if got, missing := m.Restore("plain", file); got != "plain" || missing != nil {
		t.Errorf("got %q %v", got, missing)
	}
}

func TestEnvFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".env.local"), []byte("# c\nexport A_TOKEN='aaaabbbbcccc' # x\nPLAIN=hello-world\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := secret.New(nil)
	m.AddEnvFiles(dir)
	if got := m.Mask("aaaabbbbcccc hello-world"); strings.Contains(got, "aaaabbbb") || !strings.Contains(got, "hello-world") {
		t.Errorf("got %q", got)
	}
}

func FuzzStream(f *testing.F) {
	f.Add("a "+provider+"\nb", 3)
	f.Add("-----BEGIN PRIVATE KEY-----\nxx", 5)
	f.Fuzz(func(t *testing.T, text string, n int) {
		if n < 1 || len(text) > 1<<16 {
			return
		}
		m := masker()
		s := m.Stream()
		var out strings.Builder
		for p := text; p != ""; {
			k := min(n, len(p))
			out.WriteString(s.Push(p[:k]))
			p = p[k:]
		}
		out.WriteString(s.Close())
		if strings.Contains(out.String(), provider) {
			t.Fatal("a secret came through")
		}
	})
}

func BenchmarkMask(b *testing.B) {
	m := masker()
	text := strings.Repeat("func main() { fmt.Println(\"hello\") } // x=y a comment\n", 2000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		m.Mask(text)
	}
}
