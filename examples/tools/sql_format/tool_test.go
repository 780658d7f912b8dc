package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestLayout(t *testing.T) {
	for _, c := range []struct{ sql, want string }{
		{"select a, b.c as x from t left outer join u on t.id=u.id and u.x>1 where a between 1 and 2 and (b='x''y' or c in (select id from v)) group by a, b order by a desc limit 10;", `SELECT
  a,
  b.c AS x
FROM t
LEFT OUTER JOIN u ON t.id = u.id
  AND u.x > 1
WHERE a BETWEEN 1 AND 2
  AND (b = 'x''y' OR c IN (
    SELECT
      id
    FROM v
  ))
GROUP BY a, b
ORDER BY a DESC
LIMIT 10;`},
		{"insert into t(a,b) values (1,'中;文'),(2,null) on conflict (a) do update set b=excluded.b returning id", `INSERT INTO t(a, b)
VALUES (1, '中;文'),
  (2, NULL)
ON CONFLICT (a) DO UPDATE SET b = excluded.b
RETURNING
  id`},
		{"with x as (select distinct 1 as n) select case when n=1 then 'a' else 'b' end as k, -1, a::int, left(b,2), count(*) filter (where n>1) over (partition by a order by b) from x -- note\nwhere n is distinct from -1", `WITH x AS (
  SELECT DISTINCT
    1 AS n
)
SELECT
  CASE
    WHEN n = 1 THEN 'a'
    ELSE 'b'
  END AS k,
  -1,
  a::int,
  left(b, 2),
  count(*) FILTER (WHERE n > 1) OVER (PARTITION BY a ORDER BY b)
FROM x -- note
WHERE n IS DISTINCT FROM -1`},
		{"create table t(id integer primary key, p numeric(10,2));update t set a=1 where x=[my col];delete from t", `CREATE TABLE t(
  id integer PRIMARY KEY,
  p numeric(10, 2)
);

UPDATE t
SET
  a = 1
WHERE x = [my col];

DELETE FROM t`},
		{"select $f$it's ; not; sql$f$, a.select, \"from\", `x`", "SELECT\n  $f$it's ; not; sql$f$,\n  a.select,\n  \"from\",\n  `x`"},
	} {
		if got, err := Run(t.Context(), Args{SQL: c.sql}); err != nil || got != c.want {
			t.Errorf("%s: %v\n%s", c.sql, err, got)
		}
	}
	if got, err := Run(t.Context(), Args{SQL: "Select A", Case: "lower", Indent: 4}); err != nil || got != "select\n    A" {
		t.Errorf("%q %v", got, err)
	}
}

// Whatever the text, no word of it changes or is lost, and a second run changes nothing.
func TestKeepsEveryToken(t *testing.T) {
	parts := strings.Fields("select from where ( ) ( ) , . ; and or between case when end 'a''b' \"q\" `x` x 1 1.5e-3 -- /*c*/ = <> - + :: join left on group by order insert into values set update delete union all with as [a] $t$x$t$ 中文 @v :p ? null is not ->> * create table")
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		var b strings.Builder
		for range rnd.IntN(30) + 1 {
			p := parts[rnd.IntN(len(parts))]
			b.WriteString(p)
			if p == "--" {
				b.WriteString(" note\n")
			} else if rnd.IntN(3) > 0 {
				b.WriteString([]string{" ", "\n", "\t"}[rnd.IntN(3)])
			}
		}
		before, err := scan(b.String())
		if err != nil {
			continue
		}
		out, err := Run(t.Context(), Args{SQL: b.String(), Case: "keep"})
		if err != nil {
			t.Fatal(err)
		}
		after, err := scan(out)
		if err != nil {
			t.Fatalf("%q became %q: %v", b.String(), out, err)
		}
		same := slices.EqualFunc(before, after, func(a, b token) bool { return a.kind == b.kind && a.text == b.text })
		if !same {
			t.Fatalf("%q became %q", b.String(), out)
		}
		if again, err := Run(t.Context(), Args{SQL: out, Case: "keep"}); err != nil || again != out {
			t.Fatalf("not stable: %q, then %q", out, again)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		in   Args
		want string
	}{
		{Args{}, "either"},
		{Args{SQL: "  \n"}, "no SQL"},
		{Args{SQL: "select 'a"}, "not closed"},
		{Args{SQL: "select /* a"}, "does not end"},
		{Args{SQL: "a", Indent: 20}, "indent"},
		{Args{SQL: "a", Case: "title"}, "upper, lower or keep"},
		{Args{Path: "/nonexistent/a.sql"}, "no such file"},
	} {
		if got, err := Run(t.Context(), c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %q %v", c.in, got, err)
		}
	}
}
