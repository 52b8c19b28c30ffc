package authz_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/internal/simulate/authz"
)

// requestLineCases are of a list of HTTP requests with what API servers take them for.
func requestLineCases(d policytest.Document) ([]caseTest, error) {
	var lines []requestLineTest
	if err := d.Decode(&lines); err != nil {
		return nil, err
	}
	tests := make([]caseTest, len(lines))
	for i, line := range lines {
		tests[i] = caseTest{line.Method + " " + line.URL, line.faults}
	}
	return tests, nil
}

// A requestLineTest is for a path if it has one, and else for a resource.
type requestLineTest struct {
	Method        string `json:"method"`
	URL           string `json:"url"`
	Verb          string `json:"verb"`
	Path          string `json:"path,omitempty"`
	Group         string `json:"group,omitempty"`
	Version       string `json:"version,omitempty"`
	Namespace     string `json:"namespace,omitempty"`
	Resource      string `json:"resource,omitempty"`
	Subresource   string `json:"subresource,omitempty"`
	ObjectName    string `json:"objname,omitempty"`
	FieldSelector string `json:"fieldSelector,omitempty"`
	LabelSelector string `json:"labelSelector,omitempty"`
}

func (t *requestLineTest) faults(context.Context) []string {
	line, err := authz.ParseLine(t.Method, t.URL)
	if err != nil {
		return []string{err.Error()}
	}
	got := requestLineTest{
		Method: t.Method, URL: t.URL, Verb: line.Verb,
		Group: line.Group, Version: line.Version, Namespace: line.Namespace, Resource: line.Resource,
		Subresource: line.Subresource, ObjectName: line.Name,
		FieldSelector: line.FieldSelector, LabelSelector: line.LabelSelector,
	}
	if line.NonResource {
		got = requestLineTest{Method: t.Method, URL: t.URL, Verb: line.Verb, Path: line.Path}
	}
	if got != *t {
		return []string{fmt.Sprintf("expected %s, got %s", asJSON(t), asJSON(got))}
	}
	return nil
}

func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
