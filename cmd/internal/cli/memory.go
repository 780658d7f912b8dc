package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"

	"github.com/lingjiyidong/lj/cmd/internal/app"
	"github.com/lingjiyidong/lj/core"
)

func newMemory(f *factory) *cobra.Command {
	var now string
	var clock func() time.Time // of --now, nil for the real one
	with := func(cmd *cobra.Command, fn func(ctx context.Context, a *app.App, m *app.MemoryService) error) error {
		a, err := f.open(cmd.Context(), "")
		if err != nil {
			return err
		}
		defer a.Close()
		if now != "" {
			t, ok := core.ParseTime(now, time.Local)
			if !ok {
				return usageError(cmd, fmt.Errorf("--now: time %q is not understood", now))
			}
			clock = func() time.Time { return t }
		}
		m, err := a.Memory(cmd.Context(), clock)
		if err != nil {
			return err
		}
		return fn(cmd.Context(), a, m)
	}
	id := func(cmd *cobra.Command, s string) (int64, error) {
		n, err := app.MemoryID(s)
		if err != nil {
			return 0, err
		}
		return n, nil
	}
	row := func(m core.Memory) {
		mark := " "
		if m.Pinned {
			mark = "*"
		}
		fmt.Fprintf(f.Out, "%s %4d  %-8s %-11s %-10s %s\n", mark, m.ID, app.PriorityName(m.Priority), m.Category, m.State, runewidth.Truncate(oneLine(m.Content), 90, "…"))
	}

	var category, tags, expires, scope string
	var priority, importance int
	var pin bool
	add := &cobra.Command{
		Use: "add TEXT", Short: f.p.T("Remember a statement"), Args: rangeArgs(1, -1, "a text"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cmd, func(ctx context.Context, a *app.App, m *app.MemoryService) error {
				if err := app.CheckCategory(category); err != nil {
					return err
				}
				if err := app.CheckScope(scope); err != nil {
					return err
				}
				it := app.MemoryItem{Content: strings.Join(args, " "), Category: category, Importance: importance, Pinned: pin, Scope: scope, Force: true}
				if cmd.Flags().Changed("priority") {
					if priority < 0 || priority > 3 {
						return usageError(cmd, fmt.Errorf("--priority is 0 to 3, not %d", priority))
					}
					it.Priority = &priority
				}
				if cmd.Flags().Changed("importance") && (importance < 1 || importance > 5) {
					return usageError(cmd, fmt.Errorf("--importance is 1 to 5, not %d", importance))
				}
				for t := range strings.SplitSeq(tags, ",") {
					if t = strings.TrimSpace(t); t != "" {
						it.Tags = append(it.Tags, t)
					}
				}
				if expires != "" {
					when, err := m.ParseWhen(expires)
					if err != nil {
						return err
					}
					it.ExpiresAt = when
				}
				res, err := m.Add(ctx, it)
				if err != nil {
					return err
				}
				if f.json {
					return f.printJSON(res)
				}
				fmt.Fprintf(f.Out, "%s %s", f.did(res.Action), res.ID)
				if len(res.With) > 0 {
					fmt.Fprintf(f.Out, " (%s)", strings.Join(res.With, ", "))
				}
				fmt.Fprintln(f.Out)
				return nil
			})
		},
	}
	add.Flags().StringVar(&category, "category", "", f.p.T("instruction, preference, fact, reminder or general"))
	add.Flags().IntVar(&priority, "priority", 2, f.p.T("0 critical to 3 low"))
	add.Flags().IntVar(&importance, "importance", 3, f.p.T("1 to 5"))
	add.Flags().StringVar(&tags, "tags", "", f.p.T("words, with commas between them"))
	add.Flags().StringVar(&expires, "expires", "", f.p.T("a date, a time, or a span such as 7d or 12h"))
	add.Flags().BoolVar(&pin, "pin", false, f.p.T("always use it"))
	add.Flags().StringVar(&scope, "scope", "", f.p.T("global or project"))

	var listCategory string
	var listAll bool
	list := &cobra.Command{
		Use: "list", Short: f.p.T("List memories"), Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(cmd, func(ctx context.Context, _ *app.App, m *app.MemoryService) error {
				if listCategory != core.MemoryReflection {
					if err := app.CheckCategory(listCategory); err != nil {
						return err
					}
				}
				all, err := m.List(ctx, listCategory, listAll)
				if err != nil {
					return err
				}
				if f.json {
					return f.printJSON(items(all))
				}
				for _, x := range all {
					row(x)
				}
				if len(all) == 0 {
					fmt.Fprintln(f.Err, f.p.T("no memories yet"))
				}
				return nil
			})
		},
	}
	list.Flags().StringVar(&listCategory, "category", "", f.p.T("only this category"))
	list.Flags().BoolVar(&listAll, "all", false, f.p.T("also those that were replaced, archived or have expired"))

	show := &cobra.Command{
		Use: "show ID", Short: f.p.T("Show a memory with its history"), Args: exactArgs("an ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cmd, func(ctx context.Context, _ *app.App, m *app.MemoryService) error {
				n, err := id(cmd, args[0])
				if err != nil {
					return err
				}
				st, err := m.Show(ctx, n)
				if err != nil {
					return err
				}
				if f.json {
					return f.printJSON(st)
				}
				row(st.Memory)
				fmt.Fprintln(f.Out, f.p.T("source %s, created %s, used %d times", st.Source, st.CreatedAt.Format(time.RFC3339), st.UseCount))
				if st.SupersededBy != 0 {
					fmt.Fprintln(f.Out, f.p.T("replaced by %d", st.SupersededBy))
				}
				for _, e := range st.History {
					fmt.Fprintf(f.Out, "%s %s %s\n", e.At.Format(time.RFC3339), f.p.T(e.Action), f.p.Tell(oneLine(e.Detail)))
				}
				return nil
			})
		},
	}
	edit := &cobra.Command{
		Use: "edit ID [TEXT]", Short: f.p.T("Change a memory by hand"), Args: rangeArgs(1, -1, "an ID"),
	}
	var eCategory, eTags, eExpires, eScope string
	var ePriority, eImportance int
	edit.Flags().StringVar(&eCategory, "category", "", f.p.T("instruction, preference, fact, reminder or general"))
	edit.Flags().IntVar(&ePriority, "priority", 2, f.p.T("0 critical to 3 low"))
	edit.Flags().IntVar(&eImportance, "importance", 3, f.p.T("1 to 5"))
	edit.Flags().StringVar(&eTags, "tags", "", f.p.T("words, with commas between them"))
	edit.Flags().StringVar(&eExpires, "expires", "", f.p.T("a date, a time, or a span such as 7d or 12h"))
	edit.Flags().StringVar(&eScope, "scope", "", f.p.T("global or project"))
	edit.RunE = func(cmd *cobra.Command, args []string) error {
		return with(cmd, func(ctx context.Context, _ *app.App, m *app.MemoryService) error {
			n, err := id(cmd, args[0])
			if err != nil {
				return err
			}
			if err := app.CheckCategory(eCategory); err != nil {
				return err
			}
			var c app.MemoryChange
			if len(args) > 1 {
				text := strings.Join(args[1:], " ")
				c.Content = &text
			}
			fl := cmd.Flags()
			if fl.Changed("category") {
				c.Category = &eCategory
			}
			if fl.Changed("priority") {
				c.Priority = &ePriority
			}
			if fl.Changed("importance") {
				c.Importance = &eImportance
			}
			if fl.Changed("scope") {
				c.Scope = &eScope
			}
			if fl.Changed("tags") {
				list := []string{}
				for t := range strings.SplitSeq(eTags, ",") {
					if t = strings.TrimSpace(t); t != "" {
						list = append(list, t)
					}
				}
				c.Tags = &list
			}
			if fl.Changed("expires") {
				var when time.Time
				if eExpires != "" {
					if when, err = m.ParseWhen(eExpires); err != nil {
						return err
					}
				}
				c.ExpiresAt = &when
			}
			if c == (app.MemoryChange{}) {
				return usageError(cmd, fmt.Errorf("nothing to change: give a text or a flag"))
			}
			out, err := m.Edit(ctx, n, c)
			if err != nil {
				return err
			}
			if f.json {
				return f.printJSON(out)
			}
			row(out)
			return nil
		})
	}
	rm := &cobra.Command{
		Use: "rm ID...", Short: f.p.T("Erase memories: text, index and history"), Args: rangeArgs(1, -1, "an ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cmd, func(ctx context.Context, _ *app.App, m *app.MemoryService) error {
				removed := []string{}
				for _, s := range args {
					n, err := id(cmd, s)
					if err != nil {
						return err
					}
					ids, err := m.Remove(ctx, n)
					if err != nil {
						return err
					}
					for _, x := range ids {
						removed = append(removed, strconv.FormatInt(x, 10))
					}
				}
				if f.json {
					return f.printJSON(map[string]any{"removed": removed})
				}
				fmt.Fprintln(f.Out, strings.Join(removed, "\n"))
				return nil
			})
		},
	}
	pinned := func(use, short string, to bool) *cobra.Command {
		return &cobra.Command{
			Use: use + " ID", Short: short, Args: exactArgs("an ID"),
			RunE: func(cmd *cobra.Command, args []string) error {
				return with(cmd, func(ctx context.Context, _ *app.App, m *app.MemoryService) error {
					n, err := id(cmd, args[0])
					if err != nil {
						return err
					}
					out, err := m.Pin(ctx, n, to)
					if err != nil {
						return err
					}
					if f.json {
						return f.printJSON(out)
					}
					row(out)
					return nil
				})
			},
		}
	}
	var k int
	var searchAll bool
	search := &cobra.Command{
		Use: "search WORDS", Short: f.p.T("Search memories"), Args: rangeArgs(1, -1, "words to search for"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cmd, func(ctx context.Context, _ *app.App, m *app.MemoryService) error {
				if k < 1 {
					return usageError(cmd, fmt.Errorf("-k is 1 or more, not %d", k))
				}
				hits, err := m.Search(ctx, strings.Join(args, " "), k, searchAll)
				if err != nil {
					return err
				}
				if f.json {
					out := make([]map[string]any, 0, len(hits))
					for _, h := range hits {
						v, err := app.WithKeys(h.Memory, map[string]any{"score": h.Score})
						if err != nil {
							return err
						}
						out = append(out, v)
					}
					return f.printJSON(items(out))
				}
				for _, h := range hits {
					fmt.Fprintf(f.Out, "%6.3f ", h.Score)
					row(h.Memory)
				}
				if len(hits) == 0 {
					fmt.Fprintln(f.Err, f.p.T("nothing found"))
				}
				return nil
			})
		},
	}
	search.Flags().IntVarP(&k, "limit", "k", 10, f.p.T("at most so many"))
	search.Flags().BoolVar(&searchAll, "all", false, f.p.T("also those that were replaced, archived or have expired"))
	var explain bool
	sel := &cobra.Command{
		Use: "select TEXT", Short: f.p.T("Show which memories a message would be given, and why"), Args: rangeArgs(1, -1, "a text"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cmd, func(ctx context.Context, _ *app.App, m *app.MemoryService) error {
				s, err := m.Select(ctx, strings.Join(args, " "))
				if err != nil {
					return err
				}
				if f.json {
					out := make([]map[string]any, 0, len(s.Items))
					for _, it := range s.Items {
						v, err := app.WithKeys(it.Memory, map[string]any{"score": it.Score, "relevance": it.Relevance, "recency": it.Recency, "why": it.Why})
						if err != nil {
							return err
						}
						out = append(out, v)
					}
					return f.printJSON(map[string]any{"items": out, "rows": s.Rows, "dropped": len(s.Dropped), "overrun": s.Overrun, "method": s.Method})
				}
				for _, it := range s.Items {
					row(it.Memory)
					if explain {
						fmt.Fprintln(f.Out, "         "+f.p.T("score %.3f = relevance %.3f, recency %.1f: %s", it.Score, it.Relevance, it.Recency, f.p.Tell(it.Why)))
					}
				}
				if explain {
					fmt.Fprintln(f.Err, "lj: "+f.p.T("%d rows to choose from, found by: %s", s.Rows, f.p.Tell(s.Method)))
				}
				if s.Overrun > 0 {
					fmt.Fprintln(f.Err, "lj: "+f.p.T("the memories that always stay are %d characters over the budget", s.Overrun))
				}
				return nil
			})
		},
	}
	sel.Flags().BoolVar(&explain, "explain", false, f.p.T("say why each"))
	var dry bool
	maintain := &cobra.Command{
		Use: "maintain", Short: f.p.T("Let memories expire and age, merge what says the same"), Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(cmd, func(ctx context.Context, _ *app.App, m *app.MemoryService) error {
				list, err := m.Maintain(ctx, dry)
				if err != nil {
					return err
				}
				if f.json {
					return f.printJSON(items(list))
				}
				for _, l := range list {
					l.Action, l.Detail = f.p.T(l.Action), f.p.Tell(l.Detail)
					fmt.Fprintln(f.Out, l.String())
				}
				if len(list) == 0 {
					fmt.Fprintln(f.Err, f.p.T("nothing to do"))
				}
				return nil
			})
		},
	}
	maintain.Flags().BoolVar(&dry, "dry-run", false, f.p.T("only say what would be done"))
	reflect := &cobra.Command{
		Use: "reflect", Short: f.p.T("Summarise memories on one subject"), Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(cmd, func(ctx context.Context, a *app.App, m *app.MemoryService) error {
				at := time.Now()
				if clock != nil {
					at = clock()
				}
				r, err := a.Reflect(ctx, m, at)
				if f.json {
					if perr := f.printJSON(r); perr != nil {
						return perr
					}
					return err
				}
				for _, l := range r.Items {
					fmt.Fprintf(f.Out, "%s (%s)\n%s\n", l.ID, strings.Join(l.Sources, ", "), l.Content)
					if l.Reason != "" {
						fmt.Fprintln(f.Err, "lj: "+f.p.T("memory %s lists its sources: %s", l.ID, f.p.Tell(l.Reason)))
					}
				}
				for _, x := range r.Adjusted {
					fmt.Fprintf(f.Out, "%d: %s → %s %s\n", x.ID, app.PriorityName(x.From), app.PriorityName(x.To), x.Reason)
				}
				if err != nil {
					return err
				}
				if len(r.Items)+len(r.Adjusted) == 0 {
					fmt.Fprintln(f.Err, f.p.T("nothing to do"))
				}
				return nil
			})
		},
	}
	export := &cobra.Command{
		Use: "export [FILE]", Short: f.p.T("Write all memories as JSON Lines"), Args: rangeArgs(0, 1, "a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cmd, func(ctx context.Context, _ *app.App, m *app.MemoryService) error {
				var w io.Writer = f.Out
				if len(args) == 1 {
					file, err := os.OpenFile(f.abs(args[0]), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
					if err != nil {
						return core.Errorf(core.KindUsage, "write %s: %w", args[0], err)
					}
					defer file.Close()
					w = file
				}
				_, err := m.Export(ctx, w)
				return err
			})
		},
	}
	imp := &cobra.Command{
		Use: "import FILE", Short: f.p.T("Take up memories from JSON Lines, a memory.md or a chat_history.db"), Args: exactArgs("a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cmd, func(ctx context.Context, a *app.App, m *app.MemoryService) error {
				res, err := a.MemoryImport(ctx, m, f.abs(args[0]))
				if err != nil {
					return err
				}
				failed := func() error {
					if res.Refused == 0 {
						return nil
					}
					where := strings.Join(res.Places, ", ")
					if len(res.Places) < res.Refused {
						where += ", …"
					}
					return core.Errorf(core.KindFailed, "import %s: %d refused, %d taken: %s", args[0], res.Refused, res.Taken(), where)
				}
				if f.json {
					if err := f.printJSON(res); err != nil {
						return err
					}
					return failed()
				}
				fmt.Fprintln(f.Out, f.p.T("%d added, %d merged, %d known already, %d refused", res.Added, res.Merged, res.Duplicates, res.Refused))
				for _, p := range res.Problems {
					fmt.Fprintln(f.Err, "lj: "+f.p.Tell(oneLine(p)))
				}
				return failed()
			})
		},
	}
	stats := &cobra.Command{
		Use: "stats", Short: f.p.T("Count memories"), Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(cmd, func(ctx context.Context, _ *app.App, m *app.MemoryService) error {
				s, err := m.Stats(ctx)
				if err != nil {
					return err
				}
				if f.json {
					return f.printJSON(s)
				}
				f.memoryStats(s)
				return nil
			})
		},
	}
	cmd := group(f, "memory", f.p.T("Long-term memory"), add, list, show, edit, rm, pinned("pin", f.p.T("Always use a memory"), true), pinned("unpin", f.p.T("No longer always use a memory"), false), search, sel, maintain, reflect, export, imp, stats)
	cmd.PersistentFlags().StringVar(&now, "now", "", f.p.T("fix the clock at this time"))
	return cmd
}

// memoryStats prints the counts for people.
func (f *factory) memoryStats(s app.MemoryStats) {
	say := func(format string, a ...any) { fmt.Fprintln(f.Out, f.p.T(format, a...)) }
	say("memories: %d active, %d replaced, %d archived, %d expired; %d pinned", s.States[core.MemoryActive], s.States[core.MemorySuperseded],
		s.States[core.MemoryArchived], s.States[core.MemoryExpired], s.Pinned)
	var kinds []string
	for _, c := range []string{core.MemoryInstruction, core.MemoryPreference, core.MemoryFact, core.MemoryReminder, core.MemoryGeneral, core.MemoryReflection} {
		if n := s.Categories[c]; n > 0 {
			kinds = append(kinds, fmt.Sprintf("%s %d", c, n))
		}
	}
	if len(kinds) > 0 {
		say("active by category: %s", strings.Join(kinds, ", "))
	}
	say("size: %d bytes of text, %d in the index, %d steps of history, %d erased", s.Bytes, s.Indexed, s.Events, s.Tombstones)
	say("search: %s", f.p.Tell(s.Method))
	say("ageing: CRITICAL falls after %d days, HIGH after %d, MEDIUM after %d", s.Thresholds[0], s.Thresholds[1], s.Thresholds[2])
	last := f.p.Tell(s.LastResult)
	if s.LastExtraction != nil {
		last = s.LastExtraction.Local().Format(time.RFC3339) + " " + last
	}
	say("extraction: %s; %d conversations are not read yet", last, s.Pending)
}
