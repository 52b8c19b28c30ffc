package write

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/proof"
)

// errLate is why proofs end that are not done in time.
var errLate = errors.New("--timeout ended before it was judged")

// timed returns a context that ends when the proofs have to.
func (f *importFlags) timed(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, f.timeout, errLate)
}

// late reports whether the time for proofs is over.
func late(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errLate) }

// notJudged returns what there is of a test, or of a policy, for which there is no time.
func notJudged(file string) proof.Row {
	return proof.Row{File: file, Outcome: proof.Unjudged, Why: errLate.Error()}
}

// proofs runs the tests of the other engine.
func (f *importFlags) proofs(ctx context.Context, cmd *cobra.Command, s cli.Streams, named []string, o convert.Options) ([]proof.Row, error) {
	if len(f.tests) == 0 {
		return nil, nil
	}
	paths, err := f.testPaths()
	if err != nil {
		return nil, err
	}
	inputs, err := readUnique(cmd, s, paths)
	if err != nil {
		return nil, err
	}
	var rows []proof.Row
	read := together{known: map[string]*readOnce{}, folders: foldersOf(append(named, f.tests...))}
	found, _ := foreign(inputs, f.isTest)
	for i := range found {
		var own []proof.Row
		if !late(ctx) {
			own = f.prove(ctx, &found[i], read.file, o)
		}
		switch {
		case late(ctx):
			// What ran until then may have ended since the time was over.
			own = []proof.Row{notJudged(found[i].File)}
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		rows = append(rows, own...)
	}
	if len(rows) == 0 && f.generated == nil {
		return nil, fmt.Errorf("no tests in %s: expected objects of the kind %s", strings.Join(f.tests, ", "), f.test)
	}
	return rows, nil
}

// testPaths returns the paths of --prove, and the files with tests in hidden folders below them, which are
// left out otherwise.
func (f *importFlags) testPaths() ([]string, error) {
	if f.testFile == "" {
		return f.tests, nil
	}
	// What is below another path is found from there.
	var paths []string
	for _, root := range f.tests {
		if !slices.ContainsFunc(paths, func(other string) bool { return below(other, root) }) {
			paths = append(slices.DeleteFunc(paths, func(other string) bool { return below(root, other) }), root)
		}
	}
	for _, root := range slices.Clone(paths) {
		if root == "-" {
			continue
		}
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() && entry.Name() == f.testFile && hidden(root, path) {
				paths = append(paths, path)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("--prove: %w", err)
		}
	}
	return paths, nil
}

// below reports whether a path is another one, or in it.
func below(root, path string) bool {
	relative, err := filepath.Rel(root, path)
	return err == nil && (root == "-") == (path == "-") && relative != ".." && !strings.HasPrefix(relative, ".."+string(filepath.Separator))
}

// hidden reports whether a folder between two paths is hidden.
func hidden(root, path string) bool {
	below, err := filepath.Rel(root, filepath.Dir(path))
	return err == nil && slices.ContainsFunc(strings.Split(filepath.ToSlash(below), "/"), func(name string) bool {
		return strings.HasPrefix(name, ".") && name != "." && name != ".."
	})
}

// untested proves the policies that no test has judged.
func (f *importFlags) untested(ctx context.Context, imports []convert.Import, rows []proof.Row, found []convert.Foreign, o convert.Options) []proof.Row {
	var more []proof.Row
	if len(f.tests) == 0 {
		return nil
	}
	for i, own := range testsOf(imports, rows) {
		judged := slices.ContainsFunc(own, func(r *proof.Row) bool { return r.Outcome == proof.Holds || r.Outcome == proof.Differs })
		if judged || f.generated == nil && len(own) > 0 || len(imports[i].To) == 0 || ctx.Err() != nil && !late(ctx) {
			continue
		}
		var rows []proof.Row
		if !late(ctx) && f.generated != nil {
			rows = f.generated(ctx, &imports[i], found, o)
		}
		row := notJudged(imports[i].Of.File)
		row.Name, row.Policy, row.Object = "generated requests", imports[i].Of.Ref(), imports[i].Of.Object
		switch {
		case late(ctx):
			rows = []proof.Row{row}
		case len(rows) == 0:
			row.Why = "nothing is proved: no requests are generated for a policy of this kind; write a test for it"
			rows = []proof.Row{row}
		}
		more = append(more, rows...)
	}
	return more
}

// mostTogether is how much the files that tests name may have together, in bytes.
const mostTogether = 64 << 20

// A together reads the files that tests name, each once. A test may name any path, and what a policy says
// about an object is printed: files that are in none of the folders of the command line are not read.
type together struct {
	known   map[string]*readOnce
	folders []string
	bytes   int64
}

// foldersOf returns the folders that paths are, or that files are in, without links.
func foldersOf(paths []string) []string {
	var all []string
	for _, path := range paths {
		real, err := realOf(path)
		if err != nil {
			continue
		}
		if info, err := os.Stat(real); err == nil && !info.IsDir() {
			real = filepath.Dir(real)
		}
		all = append(all, real)
	}
	return all
}

// realOf returns an absolute path without links.
func realOf(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(absolute)
}

// within reports whether a path is in one of the folders.
func (t *together) within(path string) bool {
	return slices.ContainsFunc(t.folders, func(folder string) bool {
		below, err := filepath.Rel(folder, path)
		return err == nil && filepath.IsLocal(below)
	})
}

type readOnce struct {
	objects []map[string]any
	reviews []*admissionv1.AdmissionRequest
	err     error
}

// file implements [proof.Read].
func (t *together) file(name string) ([]map[string]any, []*admissionv1.AdmissionRequest, error) {
	r := t.known[name]
	if r == nil {
		r = &readOnce{}
		t.known[name] = r
		r.err = t.read(name, r)
	}
	return r.objects, r.reviews, r.err
}

func (t *together) read(name string, into *readOnce) error {
	real, err := realOf(name)
	if err != nil {
		return fmt.Errorf("read objects: %w", err)
	}
	if !t.within(real) {
		return fmt.Errorf("read %s: it is in none of the folders that the command names: name its folder with --prove, too", name)
	}
	info, err := os.Stat(real)
	if err != nil {
		return fmt.Errorf("read objects: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("read %s: it is no regular file", name)
	}
	if t.bytes += info.Size(); t.bytes > mostTogether {
		return fmt.Errorf("read %s: the files that tests name have more than %d MiB together", name, mostTogether>>20)
	}
	inputs, err := objects.File(name)
	for i := range inputs {
		if in := &inputs[i]; in.Review != nil {
			into.reviews = append(into.reviews, in.Review)
		} else {
			into.objects = append(into.objects, in.Object)
		}
	}
	return cmp.Or(err, objects.Unique(inputs))
}
