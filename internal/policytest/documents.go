package policytest

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/internal/manifest"
	"github.com/usher-dev/usher/internal/rule"
)

// eachDocument calls use with every document in paths that is not a Kubernetes object.
func eachDocument(paths []string, use func(d Document) error) error {
	var faults faultyFiles
	for _, path := range paths {
		files, err := manifest.Files(path)
		if err != nil {
			faults = append(faults, faultyFile{path, fmt.Errorf("load cases: %w", err)})
		}
		for _, file := range files {
			if err := readFile(file, file == path, use); err != nil {
				faults = append(faults, faultyFile{file, err})
			}
		}
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}

// faultyFiles are the files and folders that cannot be read as tests, each with its error.
type faultyFiles []faultyFile

type faultyFile struct {
	name string
	error
}

// Unwrap returns the error itself.
func (f faultyFile) Unwrap() error { return f.error }

func (f faultyFiles) Error() string { return errors.Join(f.Unwrap()...).Error() }

// Unwrap returns the errors of all files.
func (f faultyFiles) Unwrap() []error {
	all := make([]error, len(f))
	for i := range f {
		all[i] = f[i]
	}
	return all
}

// readFile reads the documents of a file. One that was named by the user has to hold tests.
func readFile(file string, named bool, use func(d Document) error) error {
	documents, err := readDocuments(file)
	if err != nil {
		return err
	}
	return eachOf(file, documents, named, use)
}

// eachOf calls use with every document of a file that is not a Kubernetes object.
func eachOf(file string, documents []Document, named bool, use func(d Document) error) error {
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
		if err := use(d); err != nil {
			return fmt.Errorf("load %s: %w", d.place(where, err), err)
		}
	}
	return nil
}

// A Document is one of possibly several in a file of test cases.
type Document struct {
	// File is where the document was loaded from.
	File string

	text []byte
	// line is the first line of the text in the file.
	line int
	// json is the text as Kubernetes reads it, to which n and on are booleans.
	json []byte
}

// Documents reads the documents in files and folders, as [Tests] does, for tests with a
// format of their own.
func Documents(paths ...string) ([]Document, error) {
	var documents []Document
	err := eachDocument(paths, func(d Document) error {
		documents = append(documents, d)
		return nil
	})
	if err == nil && len(documents) == 0 {
		err = fmt.Errorf("load %s: %w", strings.Join(paths, ", "), ErrNoCases)
	}
	if err != nil {
		return nil, err
	}
	return documents, nil
}

// Head returns the fields of a document, or of the first item of one that is a list.
func (d Document) Head() (fields map[string]stdjson.RawMessage, list bool) {
	h := headOf(d.json)
	return h.fields, h.list
}

// Decode decodes the document. In texts, and unlike in YAML 1.1, only true and false are
// booleans. Fields that the value does not have are errors.
func (d Document) Decode(into any) error {
	plain, err := d.plain()
	if err != nil {
		return err
	}
	return decodeStrict(plain, into)
}

// Case decodes the document like an admission case, with numbers as API servers read them, and
// ignores unknown fields.
func (d Document) Case(into any) error {
	return json.UnmarshalCaseSensitivePreserveInts(d.json, into)
}

// DecodeLoosely is [Document.Decode] for values that look after unknown fields themselves.
func (d Document) DecodeLoosely(into any) error {
	plain, err := d.plain()
	if err != nil {
		return err
	}
	return stdjson.Unmarshal(plain, into)
}

// plain is the text as JSON in which only true and false are booleans, as in YAML 1.2: files
// of requests are full of short names.
func (d Document) plain() ([]byte, error) {
	var tree any
	if err := yamlv3.Unmarshal(d.text, &tree); err != nil {
		return nil, err
	}
	return stdjson.Marshal(tree)
}

// maxFile is the largest file that is read, in bytes.
const maxFile = 64 << 20

// readDocuments returns the documents of a YAML or JSON file.
func readDocuments(file string) ([]Document, error) {
	content, err := manifest.Read(file, maxFile)
	if err != nil {
		return nil, fmt.Errorf("load cases: %w", err)
	}
	return documentsOf(file, content)
}

// documentsOf returns the documents in the text of a file.
func documentsOf(file string, content []byte) ([]Document, error) {
	found := manifest.Split(content)
	if len(found) > manifest.MaxDocuments {
		return nil, fmt.Errorf("load cases: %s has more than %d documents: make several files of it", file, manifest.MaxDocuments)
	}
	var documents []Document
	for _, d := range found {
		converted, err := yaml.YAMLToJSONStrict(d.Text)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		if !bytes.Equal(converted, []byte("null")) {
			documents = append(documents, Document{File: file, text: d.Text, line: d.Line, json: converted})
		}
	}
	return documents, nil
}

func isObject(document []byte) bool {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	return json.UnmarshalCaseSensitivePreserveInts(document, &head) == nil && head.APIVersion != "" && head.Kind != ""
}

// decodeStrict decodes JSON and rejects unknown fields.
func decodeStrict(document stdjson.RawMessage, into any) error {
	return rule.DecodeStrict(document, into, otherNames())
}

// otherNames are fields as other formats have them: of an AdmissionReview, and of responses.
func otherNames() map[string]string {
	return map[string]string{
		"request.userInfo": "user (name, groups, uid, extra)", "expect.message": "messageContains, or messageEquals for all of it",
		"expect.warning": "warnings", "expect.status": "code", "facts": "objects",
	}
}

// place adds to the place of the document the line of the field that an error is about, if it is about one.
func (d Document) place(where string, err error) string {
	field, ok := errors.AsType[*rule.FieldError](err)
	var root yamlv3.Node
	if !ok || yamlv3.Unmarshal(d.text, &root) != nil || len(root.Content) == 0 {
		return where
	}
	line, _ := manifest.Locate(root.Content[0], 1, field.FieldPath())
	return fmt.Sprintf("%s:%d", where, d.line+line-1)
}
