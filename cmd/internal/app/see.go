package app

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/lingjiyidong/lj/core"
)

// maxImage is the size of a picture that is sent to a model, in bytes: what most servers
// take.
const maxImage = 10 << 20

// imageTypes are the pictures that models read, by the end of a name.
var imageTypes = map[string]string{".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}

// IsImageName says whether a name is that of a picture.
func IsImageName(name string) bool { return imageTypes[strings.ToLower(filepath.Ext(name))] != "" }

// ReadImages reads pictures that the user names. Where the settings say that the model
// can't see, that is an error, and so is a file that is no picture.
func (a *App) ReadImages(files []string) ([]core.Image, error) {
	if len(files) > 0 && a.Config.String("vision") == "false" {
		return nil, core.Errorf(core.KindUsage, "the model can't see pictures (vision is false)").Hint("choose a model that can, or lj config set vision true")
	}
	var out []core.Image
	for _, f := range files {
		fi, err := os.Stat(f)
		if err != nil {
			return nil, core.Errorf(core.KindUsage, "picture %s: %w", f, err)
		}
		if !fi.Mode().IsRegular() || fi.Size() > maxImage {
			return nil, core.Errorf(core.KindUsage, "picture %s: %d bytes, models take files of at most %d", f, fi.Size(), maxImage).Hint("make it smaller")
		}
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, core.Errorf(core.KindUsage, "picture %s: %w", f, err)
		}
		im, ok := imageOf(b)
		if !ok {
			return nil, core.Errorf(core.KindUsage, "%s is no PNG, JPEG, GIF or WebP picture", f)
		}
		out = append(out, im)
	}
	return out, nil
}

// imageOf recognises a picture by its bytes.
func imageOf(b []byte) (core.Image, bool) {
	mime := http.DetectContentType(b)
	for _, t := range imageTypes {
		if t == mime {
			return core.Image{MIME: mime, Data: b}, true
		}
	}
	return core.Image{}, false
}

// seen is a tool's result as the model can take it: pictures that it can't see, and ones
// that no server takes, are only told of.
func (a *App) seen(res core.ToolResult) core.ToolResult {
	if len(res.Images) == 0 {
		return res
	}
	why := ""
	if a.Config.String("vision") == "false" {
		why = "this model can't see pictures"
	}
	var keep []core.Image
	for _, im := range res.Images {
		if _, ok := imageOf(im.Data); ok && len(im.Data) <= maxImage && why == "" {
			keep = append(keep, im)
			continue
		}
		reason := why
		if reason == "" {
			reason = fmt.Sprintf("%d bytes of %s are not something that models take", len(im.Data), im.MIME)
		}
		res.Text += "\n[a picture is not shown: " + reason + "]"
	}
	res.Images = keep
	return res
}
