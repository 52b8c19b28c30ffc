package console

import (
	"context"
	"errors"
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/cmd/usher/internal/try"
	"github.com/usher-dev/usher/cmd/usher/internal/write"
	"github.com/usher-dev/usher/internal/assist"
	"github.com/usher-dev/usher/internal/console"
	"github.com/usher-dev/usher/internal/lang/worker"
	"github.com/usher-dev/usher/internal/manifest"
	"github.com/usher-dev/usher/source/dir"
)

// A bench is what the page works with.
type bench struct {
	version  string
	folder   *console.Folder
	writable bool
	// opened is what the page begins with; nil for nothing.
	opened *console.State

	limits    policies.Limits
	workers   *worker.Pool
	attempts  *try.Attempter
	assistant *assist.Service

	// mu is for writing, which is for one goroutine at a time.
	mu      sync.Mutex
	writing *assist.File
}

func (b *bench) routes() []console.Route {
	return []console.Route{
		console.Get("info", "", "What there is: the folder with its files, and examples", b.info),
		console.Get("examples/{name}", "name", "A policy of the library, with a request that it is for", b.example),
		console.Get("opened", "", "The state that the console was opened with", b.open),
		console.Get("file", "path", "A file of the folder", b.file),
		console.Post("decide", console.Heavy, "What the policies do with the request, and why", b.decide),
		console.Post("diagnose", console.Heavy, "What is wrong with policies", b.diagnose),
		console.Post("complete", console.Light, "What can be written at a place", b.complete),
		console.Post("format", console.Light, "What indents a text of YAML, and changes nothing else", reindent),
		console.Post("hover", console.Light, "What is at a place, in Markdown", b.hover),
		console.Post("case", console.Heavy, "The decision as a case of usher test", b.record),
		console.Post("save", console.Light, "Write a file of the folder", b.save),
		console.Post("test", console.Heavy, "Run cases, and count which parts of policies they exercise", b.test),
		console.Post("why", console.Light, "Find the policy that says a sentence", b.why),
		console.Post("import", console.Heavy, "Convert policies of another engine", b.convert),
		console.Post("share", console.Light, "The state as a text", share),
		console.Post("open", console.Light, "The state of a text", parse),
	}
}

// An Info says what there is.
type Info struct {
	Version  string    `json:"version"`
	Folder   string    `json:"folder"`
	Writable bool      `json:"writable"`
	Opened   bool      `json:"opened"`
	Files    []File    `json:"files"`
	Examples []Example `json:"examples"`
}

// A File is one of the folder.
type File struct {
	Path string `json:"path"`
	// Kind is policies, cases or objects.
	Kind string `json:"kind"`
}

func (b *bench) info(context.Context, string) (*Info, error) {
	info := &Info{Version: b.version, Writable: b.writable, Opened: b.opened != nil, Files: []File{}}
	if b.folder != nil {
		info.Folder = shownName(b.folder.Path())
		names, err := b.folder.Files()
		if err != nil {
			return nil, err
		}
		read := 0
		for _, name := range names {
			text := ""
			if read < mostRead {
				// What cannot be read is told by its name, and when it is opened.
				text, _ = b.folder.Read(name)
			}
			read += len(text)
			info.Files = append(info.Files, File{name, kindOf(name, text)})
		}
	}
	var err error
	info.Examples, err = examples()
	return info, err
}

// mostRead is how many bytes of files are read to tell their kinds.
const mostRead = 8 << 20

// shownName returns the name of a folder for people: the last part of its path if it was opened as ".".
func shownName(folder string) string {
	if filepath.Base(folder) != "." && filepath.Base(folder) != ".." {
		return folder
	}
	if full, err := filepath.Abs(folder); err == nil {
		return filepath.Base(full)
	}
	return folder
}

// kindOf returns what a file has: policies, cases or objects. Without a text, the name tells.
func kindOf(name, text string) string {
	parts := strings.Split(name, "/")
	kind := "policies"
	if slices.Contains(parts[:len(parts)-1], "cases") || strings.HasSuffix(strings.TrimSuffix(strings.TrimSuffix(name, ".yaml"), ".yml"), "case") {
		kind = "cases"
	}
	switch parsed := dir.Parse(path.Base(name), []byte(text)); {
	case strings.TrimSpace(text) == "":
		return kind
	case manifest.TextHasCases([]byte(text)):
		return "cases"
	case len(parsed.Policies)+len(parsed.Unreadable) > 0:
		return kind
	case kind == "cases":
		return kind
	}
	return "objects"
}

func (b *bench) open(context.Context, string) (*console.State, error) {
	if b.opened == nil {
		return nil, &console.Error{Status: http.StatusNotFound, Text: "the console was opened with nothing"}
	}
	return b.opened, nil
}

// A FileText is a file with its text, and what names this text.
type FileText struct {
	Path    string `json:"path"`
	Text    string `json:"text"`
	Kind    string `json:"kind"`
	Version string `json:"version"`
}

var errNoFolder = &console.Error{Status: http.StatusNotFound, Text: "there is no folder: name one with -p"}

func (b *bench) file(_ context.Context, name string) (*FileText, error) {
	if b.folder == nil {
		return nil, errNoFolder
	}
	text, err := b.folder.Read(name)
	if err != nil {
		return nil, err
	}
	return &FileText{name, text, kindOf(name, text), console.Version(text)}, nil
}

// A Saving is a file to write.
type Saving struct {
	Path string `json:"path"`
	Text string `json:"text"`
	// Overwrite replaces a file that exists: with a Version, only the text that has it, which the page has read.
	Overwrite bool   `json:"overwrite,omitempty"`
	Version   string `json:"version,omitempty"`
}

// A Saved is a file that was written, with the version that it has now.
type Saved struct {
	Path    string `json:"path"`
	Version string `json:"version"`
}

func (b *bench) save(_ context.Context, in *Saving) (*Saved, error) {
	switch {
	case b.folder == nil:
		return nil, errNoFolder
	case !b.writable:
		return nil, &console.Error{Status: http.StatusForbidden, Text: "the folder is not written: run usher console with --write"}
	}
	version, err := b.folder.Write(in.Path, in.Text, in.Overwrite, in.Version)
	if err != nil {
		return nil, err
	}
	return &Saved{in.Path, version}, nil
}

// A Text is a text.
type Text struct {
	Text string `json:"text"`
}

func share(_ context.Context, in *console.State) (*Text, error) {
	text, err := console.Share(in)
	return &Text{text}, err
}

func parse(_ context.Context, in *Text) (*console.State, error) { return console.Parse(in.Text) }

func (b *bench) record(ctx context.Context, in *console.State) (*Text, error) {
	if in.Authorization != "" {
		return nil, errors.New("cases of authorization are written by hand: docs/test-format.md has their format")
	}
	attempt := attemptOf(in)
	result, err := b.attempts.Decide(ctx, attempt)
	if err != nil {
		return nil, err
	}
	if len(result.Problems) > 0 {
		return nil, errors.New(result.Problems[0].String())
	}
	text, err := result.Case(attempt)
	return &Text{text}, err
}

// An Imported is what policies of another engine became.
type Imported struct {
	Engine   string `json:"engine"`
	Policies string `json:"policies"`
	Report   string `json:"report"`
}

func (b *bench) convert(ctx context.Context, in *Text) (*Imported, error) {
	made, err := write.Convert(ctx, in.Text, &b.limits)
	if err != nil {
		return nil, err
	}
	return &Imported{made.Engine, made.Policies, made.Report}, nil
}
