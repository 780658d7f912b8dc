package main

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"
)

func token(header, payload string) string {
	e := base64.RawURLEncoding.EncodeToString
	return e([]byte(header)) + "." + e([]byte(payload)) + ".c2ln"
}

func TestRun(t *testing.T) {
	now = func() time.Time { return time.Unix(1700000000, 0) }
	defer func() { now = time.Now }()
	for _, c := range []struct {
		token string
		want  []string
	}{
		{token(`{"alg":"HS256"}`, `{"name":"张三","id":12345678901234567890,"exp":1699999999,"nbf":1700000001,"iat":0}`), []string{"NOT VERIFIED", "张三", "12345678901234567890", "exp: 2023-11-14T22:13:19Z (expired)", "nbf: 2023-11-14T22:13:21Z (not valid yet)", "iat: 1970-01-01T00:00:00Z"}},
		{"Bearer " + token(`{"alg":"none"}`, `{"exp":1700000001}`), []string{"alg is none", "exp: 2023-11-14T22:13:21Z"}},
		{token(`{}`, `{"exp":1e300}`), []string{"no time in Unix seconds"}},
	} {
		got, err := Run(t.Context(), Args{Token: c.token})
		if err != nil {
			t.Error(err)
		}
		for _, w := range c.want {
			if !strings.Contains(got, w) {
				t.Errorf("%s lacks %q", got, w)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	for in, want := range map[string]string{"": "three parts", "a.b": "three parts", "a.b.c.d.e": "encrypted", "!.b.c": "header", token("1", "{}"): "header is not", token("{}", "[]"): "payload is not"} {
		if _, err := Run(t.Context(), Args{Token: in}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", in, err)
		}
	}
}
