package policytest

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/json"

	"github.com/usher-dev/usher/internal/manifest"
)

// maxNamed is how many bytes the files that tests name may have together, and maxUses how many
// policies the tests may have from them, each counted once for each test.
const (
	maxNamed = maxFile
	maxUses  = 1_000_000
)

// references are the files that tests name which are loaded together: each is read once. Tests may
// come from others than those who run them.
type references struct {
	files map[string]*reference
	bytes int64
	uses  int
	// open returns the text of a file; nil reads it.
	open func(name string) ([]byte, error)
}

func newReferences() *references { return &references{files: map[string]*reference{}} }

// A reference is a file that tests name.
type reference struct {
	documents []Document
	err       error
	// trees are the policies in the documents, once they were asked for.
	trees []map[string]any
}

// read returns a file that a test names, relative to its own.
func (r *references) read(from, name string) (*reference, error) {
	file := filepath.Join(filepath.Dir(from), name)
	known := r.files[file]
	if known == nil {
		known = &reference{}
		known.documents, known.err = r.documents(file)
		r.files[file] = known
	}
	return known, known.err
}

// documents reads a file. A device or pipe has no end, and is refused.
func (r *references) documents(file string) ([]Document, error) {
	if r.open != nil {
		text, err := r.open(filepath.ToSlash(file))
		if err != nil {
			return nil, err
		}
		return documentsOf(file, text)
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("load cases: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("load cases: %s is not a regular file", file)
	}
	if size := info.Size(); size <= maxFile {
		if r.bytes += size; r.bytes > maxNamed {
			return nil, fmt.Errorf("load cases: %s and the other files that tests name are larger than %d MiB together: run fewer tests at a time", file, maxNamed>>20)
		}
	}
	return readDocuments(file)
}

// use counts the policies that a test has from a file.
func (r *references) use(policies int) error {
	if r.uses += policies; r.uses > maxUses {
		return fmt.Errorf("load cases: tests have more than %d policies from files that they name: name smaller files, or run fewer tests at a time", maxUses)
	}
	return nil
}

// policies are the policies in the file, also those in lists. All tests share them: do not change them.
func (f *reference) policies() ([]map[string]any, error) {
	if f.trees != nil || f.err != nil {
		return f.trees, f.err
	}
	var trees []map[string]any
	for _, document := range f.documents {
		var policy map[string]any
		if f.err = json.UnmarshalCaseSensitivePreserveInts(document.json, &policy); f.err != nil {
			return nil, f.err
		}
		f.err = manifest.Each(policy, func(policy map[string]any) error {
			trees = append(trees, policy)
			return nil
		})
		if f.err != nil {
			return nil, f.err
		}
	}
	f.trees = trees
	return trees, nil
}
