package policytest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/usher-dev/usher/simulate/authz"
)

// rbacFormat is a list of sets of RBAC objects, each with questions to the authorizer that
// they make.
var rbacFormat = format{
	recognises: func(h head) bool { return h.list && h.has("objects", "cases") },
	load: func(document []byte, file string) ([]Test, error) {
		var sets []struct {
			Set     string           `json:"set"`
			Objects []map[string]any `json:"objects"`
			Cases   []rbacTest       `json:"cases"`
		}
		if err := decodeStrict(document, &sets); err != nil {
			return nil, err
		}
		var tests []Test
		for _, set := range sets {
			objects, err := authz.FromTrees(set.Objects)
			if err != nil {
				return nil, fmt.Errorf("set %s: %w", set.Set, err)
			}
			rbac, _ := authz.NewRBAC(objects)
			for _, c := range set.Cases {
				tests = append(tests, Test{Name: c.Name, File: file, faults: func(ctx context.Context) []string { return c.faults(ctx, rbac) }})
			}
		}
		return tests, nil
	},
}

type rbacTest struct {
	AccessRequest

	Name string `json:"name"`
	// Want is Allow or NoOpinion: RBAC never denies. Reason is a part of the reason.
	Want   string `json:"want"`
	Reason string `json:"reason,omitempty"`
}

func (t *rbacTest) faults(ctx context.Context, rbac *authz.RBAC) (faults []string) {
	got := rbac.Authorize(ctx, t.Request())
	if verdictName(got.Verdict) != t.Want {
		faults = append(faults, fmt.Sprintf("expected %s, got %s %s", t.Want, verdictName(got.Verdict), got.Reason))
	}
	if !strings.Contains(got.Reason, t.Reason) {
		faults = append(faults, fmt.Sprintf("expected a reason with %q in it, got %q", t.Reason, got.Reason))
	}
	return faults
}

// requestLineFormat is a list of HTTP requests with what API servers take them for.
var requestLineFormat = format{
	recognises: func(h head) bool { return h.list && h.has("method", "url") },
	load: func(document []byte, file string) ([]Test, error) {
		var lines []requestLineTest
		if err := decodeStrict(document, &lines); err != nil {
			return nil, err
		}
		tests := make([]Test, len(lines))
		for i, line := range lines {
			tests[i] = Test{Name: line.Method + " " + line.URL, File: file, faults: line.faults}
		}
		return tests, nil
	},
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
