package cli

import (
	"context"

	"github.com/lingjiyidong/lj/cmd/internal/app"
	"github.com/lingjiyidong/lj/core"
)

func chat(context.Context, *factory, *turnFlags, app.TurnOptions) error {
	return core.Errorf(core.KindUsage, "chat is not part of this version").Hint(`use lj run "…" and lj run --continue "…"`)
}
