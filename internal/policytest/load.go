package policytest

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
)

// ErrNoCases is the error of [Load] when there is nothing to run.
var ErrNoCases = errors.New("no test cases found: usher decide -o case writes one, to start from")

// Tests reads the tests in files, of every format, and in folders all the way down. In folders,
// files that do not end in .yaml, .yml or .json are left out, and so are documents that are
// Kubernetes objects: the policies under test may lie next to their tests. One error has all faults
// of all files.
func Tests(paths ...string) ([]Test, error) {
	tests, err := testsIn(newReferences(), strings.Join(paths, ", "), func(use func(Document) error) error { return eachDocument(paths, use) })
	if err != nil {
		return nil, err
	}
	return tests, nil
}

// Parse is [Tests] for the text of one file, which need not exist. Open returns the files that tests name: it gets their
// names joined with the folder of file, and all that is read comes from it.
func Parse(file string, text []byte, open func(name string) ([]byte, error)) ([]Test, error) {
	named := newReferences()
	named.open = open
	tests, err := testsIn(named, file, func(use func(Document) error) error {
		documents, err := documentsOf(file, text)
		if err != nil {
			return err
		}
		return eachOf(file, documents, true, use)
	})
	if err != nil {
		return nil, err
	}
	return tests, nil
}

// testsIn returns the tests in the documents that each has, also with an error: those that have none.
func testsIn(named *references, where string, each func(use func(Document) error) error) ([]Test, error) {
	var tests []Test
	shared := newMemo()
	err := each(func(d Document) error {
		loaded, err := load(d, named)
		for i := range loaded {
			if c := loaded[i].admission; c != nil {
				c.memo = shared
			}
		}
		tests = append(tests, loaded...)
		return err
	})
	if err == nil && len(tests) == 0 {
		err = fmt.Errorf("load %s: %w", where, ErrNoCases)
	}
	return tests, err
}

// Load is [Tests] for admission cases; tests of other formats are left out.
func Load(paths ...string) ([]*Case, error) {
	var cases []*Case
	named := newReferences()
	err := eachDocument(paths, func(d Document) error {
		if !isCase(d.json) {
			return nil
		}
		c, err := decodeCase(d.json, d.File, named)
		cases = append(cases, c)
		return err
	})
	if err == nil && len(cases) == 0 {
		err = fmt.Errorf("load %s: %w", strings.Join(paths, ", "), ErrNoCases)
	}
	if err != nil {
		return nil, err
	}
	return cases, nil
}

// caseFormat is that of admission cases, and of unrecognised documents.
var caseFormat = format{
	recognises: func(head) bool { return true },
	load: func(document []byte, file string, named *references) ([]Test, error) {
		c, err := decodeCase(document, file, named)
		if err != nil {
			return nil, err
		}
		return []Test{c.Test()}, nil
	},
}

func isCase(document []byte) bool {
	h := headOf(document)
	return !slices.ContainsFunc(formats[:len(formats)-1], func(f format) bool { return f.recognises(h) })
}

func decodeCase(document []byte, file string, named *references) (*Case, error) {
	// Errors would quote the fields of a file that has nothing to do with tests, and to which a link may lead.
	if h := headOf(document); !h.has("request") && !h.has("expect") && !h.has("phase") {
		return nil, errors.New("not a test case: it has no phase, request and expect")
	}
	c := &Case{File: file}
	if err := decodeStrict(document, c); err != nil {
		return nil, err
	}
	if c.Name == "" {
		c.Name = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	}
	if err := c.readPolicyFiles(named); err != nil {
		return nil, err
	}
	return c, c.validate()
}

func (c *Case) readPolicyFiles(named *references) error {
	for _, name := range c.PolicyFiles {
		read, err := named.read(c.File, name)
		if err != nil {
			return err
		}
		policies, err := read.policies()
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if err := named.use(len(policies)); err != nil {
			return err
		}
		c.Policies, c.files = append(c.Policies, policies...), append(c.files, slices.Repeat([]string{name}, len(policies))...)
	}
	return nil
}

// validate refuses what could only pass by accident.
func (c *Case) validate() error {
	if c.Phase == "" {
		return fmt.Errorf("phase is missing: write %s, or %s for what policies change", usher.Validate, usher.Mutate)
	}
	if c.Phase != usher.Mutate && c.Phase != usher.Validate {
		return fmt.Errorf("phase: %q is neither %s nor %s", c.Phase, usher.Mutate, usher.Validate)
	}
	if !slices.Contains(usher.Operations(), c.Request.Operation) {
		return fmt.Errorf("request.operation: %q is none of %v", c.Request.Operation, usher.Operations())
	}
	if c.Request.Object == nil && c.Request.OldObject == nil {
		return errors.New("request: object is missing (oldObject for DELETE)")
	}
	if c.Expected() == nil {
		return errors.New("expect: missing")
	}
	for name, e := range map[string]*Expect{"expect": c.Expect, "betterExpect": c.BetterExpect} {
		if err := e.validate(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for i := range c.Access {
		if _, err := c.Access[i].verdict(); err != nil {
			return fmt.Errorf("access[%d]: %w", i, err)
		}
	}
	return nil
}

func (e *Expect) validate() error {
	switch {
	case e == nil:
		return nil
	case e.saysNothing():
		return errors.New("says nothing; say at least allowed: true or allowed: false")
	case e.Unchanged && (e.PatchedObject != nil || len(e.Fields) > 0):
		return errors.New("unchanged excludes patchedObject and fields")
	}
	for i, f := range e.Fields {
		if err := f.validate(); err != nil {
			return fmt.Errorf("fields[%d]: %w", i, err)
		}
	}
	return nil
}

func (f *Field) validate() error {
	checks := 0
	for _, set := range []bool{f.Value != nil, f.Absent, f.NonEmpty, f.Matches != ""} {
		if set {
			checks++
		}
	}
	if checks != 1 {
		return errors.New("needs exactly one of value, absent, nonEmpty and matches")
	}
	if f.Path != "" && !strings.HasPrefix(f.Path, "/") {
		return fmt.Errorf("path: %q is not a JSON pointer", f.Path)
	}
	if _, err := regexp.Compile(f.Matches); err != nil {
		return fmt.Errorf("matches: %w", err)
	}
	return nil
}
