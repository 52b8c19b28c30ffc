// Package cabundle writes the CA certificates for API servers into files with webhook
// configurations. Everything else in a file stays as it is, byte for byte: people write such files,
// with comments.
package cabundle

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/usher-dev/usher/internal/manifest"
)

// ErrNoWebhook is the error for files that register nothing.
var ErrNoWebhook = errors.New("there is no ValidatingWebhookConfiguration, MutatingWebhookConfiguration or CustomResourceDefinition with a conversion webhook in it")

// Patch returns a YAML or JSON file in which all webhooks trust the bundle, certificates in
// PEM, and how many webhooks those are.
func Patch(file, bundle []byte) (patched []byte, webhooks int, err error) {
	documents, err := decode(file)
	if err != nil {
		return nil, 0, err
	}
	e := &editor{text: file, lines: lineStarts(file), value: base64.StdEncoding.EncodeToString(bundle)}
	for _, document := range documents {
		if err := e.document(document); err != nil {
			return nil, 0, err
		}
	}
	if e.found == 0 {
		return nil, 0, ErrNoWebhook
	}
	patched = e.apply()
	if err := verify(documents, patched, e.value); err != nil {
		return nil, 0, err
	}
	return patched, e.found, nil
}

// decode returns the documents of a file.
func decode(file []byte) ([]*yaml.Node, error) {
	var documents []*yaml.Node
	for root, err := range manifest.Nodes(file) {
		if err == nil {
			// Nodes can contain themselves, values cannot.
			err = root.Decode(new(any))
		}
		if err != nil {
			return nil, fmt.Errorf("decode YAML: %w", err)
		}
		documents = append(documents, root)
	}
	return documents, nil
}

// An editor collects what to change about a text.
type editor struct {
	text []byte
	// lines are where lines begin.
	lines []int
	// value is the bundle in base64.
	value string
	edits []edit
	// found is the number of webhooks; done are those maps that have their edit already,
	// since several webhooks can share one.
	found int
	done  []*yaml.Node
}

// An edit replaces the text between start and end.
type edit struct {
	start, end int
	text       string
}

// A shape is where objects of a kind have their webhooks.
type shape int

const (
	other shape = iota
	list
	registration
	definition
)

func shapeOf(apiVersion, kind string) shape {
	group, _, _ := strings.Cut(apiVersion, "/")
	switch {
	case strings.HasSuffix(kind, "List"):
		return list
	case group == "admissionregistration.k8s.io" && (kind == "ValidatingWebhookConfiguration" || kind == "MutatingWebhookConfiguration"):
		return registration
	case group == "apiextensions.k8s.io" && kind == "CustomResourceDefinition":
		return definition
	}
	return other
}

// document finds the webhooks that an object registers, or the objects of a list.
func (e *editor) document(object *yaml.Node) error {
	switch shapeOf(manifest.Text(object, "apiVersion"), manifest.Text(object, "kind")) {
	case list:
		for _, item := range items(object, "items") {
			if err := e.document(item); err != nil {
				return err
			}
		}
	case registration:
		for _, webhook := range items(object, "webhooks") {
			if err := e.webhook(webhook); err != nil {
				return err
			}
		}
	case definition:
		if webhook := manifest.Member(object, "spec", "conversion", "webhook"); webhook != nil {
			return e.webhook(webhook)
		}
	case other:
	}
	return nil
}

func (e *editor) webhook(webhook *yaml.Node) error {
	key, config := manifest.Entry(webhook, "clientConfig")
	config = manifest.Resolve(config)
	if config == nil || config.Kind != yaml.MappingNode || len(config.Content) == 0 {
		return fmt.Errorf("line %d: the webhook has no clientConfig with a url or a service", webhook.Line)
	}
	e.found++
	if slices.Contains(e.done, config) {
		return nil
	}
	e.done = append(e.done, config)
	if bundleKey, bundle := manifest.Entry(config, "caBundle"); bundle != nil {
		return e.replace(bundleKey, bundle, config.Style&yaml.FlowStyle != 0)
	}
	e.insert(key, config)
	return nil
}

// insert adds caBundle to a map as its first entry.
func (e *editor) insert(key, config *yaml.Node) {
	first := config.Content[0]
	name := "caBundle"
	if first.Style&yaml.DoubleQuotedStyle != 0 {
		name = `"caBundle"`
	}
	if config.Style&yaml.FlowStyle != 0 {
		value := e.value
		if name != "caBundle" {
			value = `"` + value + `"`
		}
		at := e.offset(first)
		e.edits = append(e.edits, edit{at, at, name + ": " + value + ", "})
		return
	}
	// Above the comments of the first key.
	line := key.Line
	if config.Anchor != "" || config.Line <= key.Line {
		line = first.Line - 1
	}
	at := e.lineStart(line + 1)
	e.edits = append(e.edits, edit{at, at, strings.Repeat(" ", first.Column-1) + name + ": " + e.value + e.lineEnd(line)})
}

// replace changes the value of caBundle.
func (e *editor) replace(key, value *yaml.Node, flow bool) error {
	if value.Kind != yaml.ScalarNode || value.Anchor != "" {
		return fmt.Errorf("line %d: caBundle is shared by name: write the value itself, or nothing", key.Line)
	}
	start := e.offset(key)
	start += bytes.IndexByte(e.text[start:], ':') + 1
	end := start
	switch {
	case value.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		end = e.quoted(e.offset(value))
	case value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		end = e.indented(start, key.Column)
	case value.Value != "":
		end = e.plain(e.offset(value), key.Column, flow)
	}
	replacement := " " + e.value
	if value.Style&yaml.DoubleQuotedStyle != 0 {
		replacement = ` "` + e.value + `"`
	}
	e.edits = append(e.edits, edit{start, end, replacement})
	return nil
}

// quoted returns where the quoted text ends that begins at start.
func (e *editor) quoted(start int) int {
	quote := e.text[start]
	for i := start + 1; i < len(e.text); i++ {
		switch {
		case e.text[i] == '\\' && quote == '"':
			i++
		case e.text[i] == quote && quote == '\'' && i+1 < len(e.text) && e.text[i+1] == quote:
			i++
		case e.text[i] == quote:
			return i + 1
		}
	}
	return len(e.text)
}

// plain returns where a text without quotes ends that begins at start, with all its lines
// if the key stands alone on its line.
func (e *editor) plain(start, column int, flow bool) int {
	if flow {
		return start + len(bytes.TrimRight(e.text[start:start+indexOrEnd(e.text[start:], ",}#\r\n")], " \t"))
	}
	line := e.text[start : start+indexOrEnd(e.text[start:], "\r\n")]
	if before, _, ok := bytes.Cut(line, []byte(" #")); ok {
		return start + len(bytes.TrimRight(before, " \t"))
	}
	return e.indented(start, column)
}

// indented returns where the text at start ends, with the lines below it that are further
// to the right than the column.
func (e *editor) indented(start, column int) int {
	end := start + indexOrEnd(e.text[start:], "\r\n")
	for _, next := range e.lines {
		if next <= start {
			continue
		}
		line := e.text[next : next+indexOrEnd(e.text[next:], "\r\n")]
		said := bytes.TrimLeft(line, " ")
		switch {
		case len(bytes.TrimSpace(said)) == 0:
		case len(line)-len(said) < column:
			return end
		default:
			end = next + len(line)
		}
	}
	return end
}

// apply returns the text with the edits.
func (e *editor) apply() []byte {
	slices.SortFunc(e.edits, func(a, b edit) int { return a.start - b.start })
	var patched []byte
	at := 0
	for _, edit := range e.edits {
		patched = append(append(patched, e.text[at:edit.start]...), edit.text...)
		at = edit.end
	}
	return append(patched, e.text[at:]...)
}

// verify checks that the patched file means the same as before, and that caBundle is the value:
// YAML has more notations than this code edits.
func verify(documents []*yaml.Node, patched []byte, value string) error {
	errUnusual := errors.New("it is written in a way that cannot be patched: set each caBundle to the base64 of the CA yourself")
	after, err := decode(patched)
	if err != nil || len(after) != len(documents) {
		return errUnusual
	}
	for i, document := range documents {
		var want, got any
		if err := errors.Join(document.Decode(&want), after[i].Decode(&got)); err != nil {
			return fmt.Errorf("decode YAML: %w", err)
		}
		trust(want, value)
		if !reflect.DeepEqual(want, got) {
			return errUnusual
		}
	}
	return nil
}

// trust sets the caBundle of all webhooks of an object.
func trust(object any, value string) {
	top, _ := object.(map[string]any)
	set := func(webhook any) {
		w, _ := webhook.(map[string]any)
		if config, ok := w["clientConfig"].(map[string]any); ok {
			config["caBundle"] = value
		}
	}
	apiVersion, _ := top["apiVersion"].(string)
	kind, _ := top["kind"].(string)
	switch shapeOf(apiVersion, kind) {
	case list:
		all, _ := top["items"].([]any)
		for _, item := range all {
			trust(item, value)
		}
	case registration:
		all, _ := top["webhooks"].([]any)
		for _, webhook := range all {
			set(webhook)
		}
	case definition:
		spec, _ := top["spec"].(map[string]any)
		conversion, _ := spec["conversion"].(map[string]any)
		set(conversion["webhook"])
	case other:
	}
}
