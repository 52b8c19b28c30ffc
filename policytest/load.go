package policytest

import (
	"bufio"
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
)

// ErrNoCases is the error of [Load] when there is nothing to run.
var ErrNoCases = errors.New("no cases found")

// Tests reads the tests in files, of every format, and in folders all the way down. In
// folders, files that do not end in .yaml, .yml or .json are left out, and so are documents
// that are Kubernetes objects: the policies under test may lie next to their tests. All
// faults of all files come back in one error.
func Tests(paths ...string) ([]Test, error) {
	var tests []Test
	err := eachDocument(paths, func(d document, file string) error {
		loaded, err := load(d, file)
		tests = append(tests, loaded...)
		return err
	})
	if err == nil && len(tests) == 0 {
		err = fmt.Errorf("load %s: %w", strings.Join(paths, ", "), ErrNoCases)
	}
	if err != nil {
		return nil, err
	}
	return tests, nil
}

// Load is [Tests] for admission cases; tests of other formats are left out.
func Load(paths ...string) ([]*Case, error) {
	var cases []*Case
	err := eachDocument(paths, func(d document, file string) error {
		if !isCase(d.json) {
			return nil
		}
		c, err := decodeCase(d.json, file)
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

// caseFormat is that of admission cases, and of what has no format at all.
var caseFormat = format{
	recognises: func(head) bool { return true },
	load: func(document []byte, file string) ([]Test, error) {
		c, err := decodeCase(document, file)
		if err != nil {
			return nil, err
		}
		return []Test{c.test()}, nil
	},
}

func isCase(document []byte) bool {
	h := headOf(document)
	return !slices.ContainsFunc(formats[:len(formats)-1], func(f format) bool { return f.recognises(h) })
}

// eachDocument calls use with every document in paths that is not a Kubernetes object.
func eachDocument(paths []string, use func(d document, file string) error) error {
	var faults []error
	for _, path := range paths {
		files, err := caseFiles(path)
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := readFile(file, file == path, use); err != nil {
				faults = append(faults, err)
			}
		}
	}
	return errors.Join(faults...)
}

func caseFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("load cases: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("load cases: %w", err)
		}
		if !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
			files = append(files, name)
		}
		return nil
	})
	return files, err
}

// readFile reads the documents of a file. One that was named by the user has to hold tests.
func readFile(file string, named bool, use func(d document, file string) error) error {
	documents, err := readDocuments(file)
	if err != nil {
		return err
	}
	for i, d := range documents {
		where := file
		if len(documents) > 1 {
			where = fmt.Sprintf("%s (document %d)", file, i+1)
		}
		if isObject(d.json) {
			if named {
				return fmt.Errorf("load %s: a Kubernetes object, not a test case; name its cases, or list it under policyFiles of one", where)
			}
			continue
		}
		if err := use(d, file); err != nil {
			return fmt.Errorf("load %s: %w", where, err)
		}
	}
	return nil
}

// A document is one of possibly several in a file.
type document struct {
	text []byte
	// json is the text as Kubernetes reads it, to which n and on are booleans.
	json []byte
}

// plain is the text as JSON in which only true and false are booleans, as in YAML 1.2: files
// of requests are full of short names.
func (d document) plain() ([]byte, error) {
	var tree any
	if err := yamlv3.Unmarshal(d.text, &tree); err != nil {
		return nil, err
	}
	return stdjson.Marshal(tree)
}

// readDocuments returns the documents of a YAML or JSON file.
func readDocuments(file string) ([]document, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("load cases: %w", err)
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	var documents []document
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		converted, err := yaml.YAMLToJSONStrict(text)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		if !bytes.Equal(converted, []byte("null")) {
			documents = append(documents, document{text: text, json: converted})
		}
	}
}

func isObject(document []byte) bool {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	return json.UnmarshalCaseSensitivePreserveInts(document, &head) == nil && head.APIVersion != "" && head.Kind != ""
}

func decodeCase(document []byte, file string) (*Case, error) {
	c := &Case{File: file}
	if err := decodeStrict(document, c); err != nil {
		return nil, err
	}
	if c.Name == "" {
		c.Name = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	}
	if err := c.readPolicyFiles(); err != nil {
		return nil, err
	}
	return c, c.validate()
}

func (c *Case) readPolicyFiles() error {
	for _, name := range c.PolicyFiles {
		documents, err := readDocuments(filepath.Join(filepath.Dir(c.File), name))
		if err != nil {
			return err
		}
		for _, d := range documents {
			var policy map[string]any
			if err := json.UnmarshalCaseSensitivePreserveInts(d.json, &policy); err != nil {
				return fmt.Errorf("read %s: %w", name, err)
			}
			c.Policies = append(c.Policies, policy)
		}
	}
	return nil
}

// validate refuses what could only pass by accident.
func (c *Case) validate() error {
	if c.Phase != usher.Mutate && c.Phase != usher.Validate {
		return fmt.Errorf("phase: %q is neither %s nor %s", c.Phase, usher.Mutate, usher.Validate)
	}
	if !slices.Contains(usher.Operations(), c.Request.Operation) {
		return fmt.Errorf("request.operation: %q is none of %v", c.Request.Operation, usher.Operations())
	}
	if c.Request.Object == nil && c.Request.OldObject == nil {
		return errors.New("request: object is missing (oldObject for DELETE)")
	}
	if c.expected() == nil {
		return errors.New("expect: missing")
	}
	for name, e := range map[string]*Expect{"expect": c.Expect, "betterExpect": c.BetterExpect} {
		if err := e.validate(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
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
