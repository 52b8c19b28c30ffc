// Package objects reads objects and recorded reviews from the files that commands get.
package objects

import (
	"cmp"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/json"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/manifest"
)

// An Input is one thing to decide: an object, or a recorded review of one.
type Input struct {
	// File is where it comes from; "-" is the standard input.
	File   string
	Object map[string]any
	// Origin is where an object of the standard input comes from.
	Origin Origin
	// Review is the request of an AdmissionReview of any version, and the object is nil then.
	Review *admissionv1.AdmissionRequest

	// text is the file, and nth the object in it.
	text *text
	nth  nth
}

// Trees returns the objects of inputs, without reviews.
func Trees(inputs []Input) []map[string]any {
	var trees []map[string]any
	for i := range inputs {
		if inputs[i].Object != nil {
			trees = append(trees, inputs[i].Object)
		}
	}
	return trees
}

// RegisterFlag adds the flag -f, which names files and folders with objects.
func RegisterFlag(flags *pflag.FlagSet, paths *[]string) {
	flags.StringArrayVarP(paths, "file", "f", nil, "file or folder with objects or AdmissionReviews, - for the standard input (repeatable)")
}

// Read reads the objects in files and folders; - is the standard input. Lists are split into their
// items. In folders, files without objects are skipped with a note on s.Err.
func Read(cmd *cobra.Command, s cli.Streams, paths []string) ([]Input, error) {
	if err := cli.ReadsStdinOnce(paths); err != nil {
		return nil, err
	}
	var inputs []Input
	var skipped []string
	for _, path := range paths {
		files, err := inputFiles(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			found, err := readInputFile(file, s.In)
			if file != path && errors.Is(err, ErrNoObject) {
				skipped = append(skipped, file)
				err = nil
			}
			if err != nil {
				return nil, err
			}
			inputs = append(inputs, found...)
		}
	}
	if len(skipped) > 0 {
		cli.Notef(cmd, s, "note", "skipped what is not a Kubernetes object in %s: %s", cli.Count(len(skipped), "file", "files"), cli.Some(skipped))
	}
	if len(inputs) == 0 {
		return nil, fmt.Errorf("no objects in %s", strings.Join(paths, ", "))
	}
	return inputs, nil
}

// File returns what is in a file.
func File(path string) ([]Input, error) { return readInputFile(path, nil) }

// From returns what is in a file that somebody else has opened, with [ErrNoObject] if it also has other documents.
func From(file string, content io.Reader) ([]Input, error) {
	text, err := io.ReadAll(io.LimitReader(content, manifest.MaxObjects+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read objects: %w", err)
	case len(text) > manifest.MaxObjects:
		return nil, fmt.Errorf("read %s: more than %d MiB", file, manifest.MaxObjects>>20)
	}
	return parseFile(file, text)
}

// ErrNoObject is the error of a document that is not an object.
var ErrNoObject = errors.New("not a Kubernetes object: apiVersion or kind is missing")

func inputFiles(path string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	files, err := manifest.Files(path)
	if err != nil {
		return nil, fmt.Errorf("read objects: %w", err)
	}
	return files, nil
}

// readInputFile returns the objects of a file, with ErrNoObject if it also has other documents.
func readInputFile(file string, stdin io.Reader) ([]Input, error) {
	var content []byte
	var err error
	if file == "-" {
		content, err = io.ReadAll(stdin)
	} else {
		content, err = manifest.Read(file, manifest.MaxObjects)
	}
	if err != nil {
		return nil, fmt.Errorf("read objects: %w", err)
	}
	return parseFile(file, content)
}

func parseFile(file string, content []byte) ([]Input, error) {
	var inputs []Input
	var other error
	for _, document := range manifest.Split(content) {
		values, err := document.Values()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		for _, value := range values {
			found, err := parseInput(value)
			switch {
			case errors.Is(err, ErrNoObject):
				other = cmp.Or(other, fmt.Errorf("read %s: %w", file, err))
			case err != nil:
				return nil, fmt.Errorf("read %s: %w", file, err)
			}
			for _, in := range found {
				if in.File = file; file == "-" {
					in.Origin = originOf(document.Text, in.Object)
				}
				inputs = append(inputs, in)
			}
		}
	}
	number(inputs, content)
	return inputs, other
}

func parseInput(value any) ([]Input, error) {
	object, ok := value.(map[string]any)
	if !ok {
		return nil, ErrNoObject
	}
	var inputs []Input
	err := manifest.Each(object, func(object map[string]any) error {
		if !isObject(object) {
			return ErrNoObject
		}
		if object["kind"] != "AdmissionReview" {
			inputs = append(inputs, Input{Object: object})
			return nil
		}
		review, err := parseReview(object)
		inputs = append(inputs, review)
		return err
	})
	return inputs, err
}

func isObject(tree map[string]any) bool {
	apiVersion, _ := tree["apiVersion"].(string)
	kind, _ := tree["kind"].(string)
	return apiVersion != "" && kind != ""
}

// parseReview reads a review of any version: v1 and v1beta1 have the same fields.
func parseReview(object map[string]any) (Input, error) {
	raw, err := stdjson.Marshal(object)
	if err != nil {
		return Input{}, fmt.Errorf("encode AdmissionReview: %w", err)
	}
	var review admissionv1.AdmissionReview
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, &review); err != nil {
		return Input{}, fmt.Errorf("decode AdmissionReview: %w", err)
	}
	if review.Request == nil {
		return Input{}, errors.New("the AdmissionReview has no request")
	}
	return Input{Review: review.Request}, nil
}
