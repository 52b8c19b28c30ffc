// Package objects reads the objects and recorded reviews that commands are given in files.
package objects

import (
	"bufio"
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/internal/manifest"
)

// An Input is one thing to decide: an object, or a recorded review of one.
type Input struct {
	// File is where it comes from; "-" is the standard input.
	File   string
	Object map[string]any
	// Review is the request of an AdmissionReview of any version, and object then nil.
	Review *admissionv1.AdmissionRequest
}

// Read reads the objects in files and folders. Lists are taken apart.
func Read(paths []string, stdin io.Reader) ([]Input, error) {
	var inputs []Input
	for _, path := range paths {
		files, err := inputFiles(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			found, err := readInputFile(file, stdin)
			if err != nil {
				return nil, err
			}
			inputs = append(inputs, found...)
		}
	}
	if len(inputs) == 0 {
		return nil, fmt.Errorf("no objects in %s", strings.Join(paths, ", "))
	}
	return inputs, nil
}

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

func readInputFile(file string, stdin io.Reader) ([]Input, error) {
	var content []byte
	var err error
	if file == "-" {
		content, err = io.ReadAll(stdin)
	} else {
		content, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, fmt.Errorf("read objects: %w", err)
	}
	var inputs []Input
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return inputs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		for _, value := range valuesOf(document) {
			found, err := parseInput(value)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", file, err)
			}
			for _, in := range found {
				in.File = file
				inputs = append(inputs, in)
			}
		}
	}
}

// valuesOf takes JSON values apart that follow one another, of which a YAML parser reads
// the first only. The last one is what is no JSON.
func valuesOf(document []byte) [][]byte {
	if !bytes.HasPrefix(bytes.TrimSpace(document), []byte("{")) {
		return [][]byte{document}
	}
	var values [][]byte
	decoder := stdjson.NewDecoder(bytes.NewReader(document))
	for {
		var value stdjson.RawMessage
		switch err := decoder.Decode(&value); {
		case errors.Is(err, io.EOF):
			return values
		case err != nil:
			return append(values, document[decoder.InputOffset():])
		}
		values = append(values, value)
	}
}

func parseInput(document []byte) ([]Input, error) {
	raw, err := yaml.YAMLToJSON(document)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(raw, []byte("null")) {
		return nil, nil
	}
	var object map[string]any
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, &object); err != nil {
		return nil, err
	}
	kind, _ := object["kind"].(string)
	if kind == "AdmissionReview" {
		return parseReview(raw)
	}
	if items, ok := object["items"].([]any); ok && strings.HasSuffix(kind, "List") {
		apiVersion, _ := object["apiVersion"].(string)
		return parseItems(items, apiVersion, strings.TrimSuffix(kind, "List"))
	}
	if !isObject(object) {
		return nil, errors.New("not a Kubernetes object: apiVersion or kind is missing")
	}
	return []Input{{Object: object}}, nil
}

// parseItems returns the items of a list. Those of a list of one kind, which an API server
// sends without, are of that kind.
func parseItems(items []any, apiVersion, kind string) ([]Input, error) {
	var inputs []Input
	for i, item := range items {
		object, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("items[%d] is not an object", i)
		}
		if object["apiVersion"] == nil && object["kind"] == nil && kind != "" {
			object["apiVersion"], object["kind"] = apiVersion, kind
		}
		if !isObject(object) {
			return nil, fmt.Errorf("items[%d] is not a Kubernetes object: apiVersion or kind is missing", i)
		}
		inputs = append(inputs, Input{Object: object})
	}
	return inputs, nil
}

func isObject(tree map[string]any) bool {
	apiVersion, _ := tree["apiVersion"].(string)
	kind, _ := tree["kind"].(string)
	return apiVersion != "" && kind != ""
}

// parseReview reads a review of any version: v1 and v1beta1 have the same fields.
func parseReview(raw []byte) ([]Input, error) {
	var review admissionv1.AdmissionReview
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, &review); err != nil {
		return nil, fmt.Errorf("decode AdmissionReview: %w", err)
	}
	if review.Request == nil {
		return nil, errors.New("the AdmissionReview has no request")
	}
	return []Input{{Review: review.Request}}, nil
}
