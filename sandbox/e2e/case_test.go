package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// A testCase is a test case as docs/test-format.md describes them, as far as a cluster
// can show it.
type testCase struct {
	Name    string           `json:"name"`
	Phase   string           `json:"phase"`
	Policy  []string         `json:"policyFiles"`
	Objects []map[string]any `json:"objects"`
	HTTP    []answer         `json:"http"`
	Request struct {
		Operation string         `json:"operation"`
		Namespace string         `json:"namespace"`
		DryRun    bool           `json:"dryRun"`
		Object    map[string]any `json:"object"`
		OldObject map[string]any `json:"oldObject"`
	} `json:"request"`
	Expect struct {
		Allowed         *bool   `json:"allowed"`
		Code            int32   `json:"code"`
		MessageEquals   *string `json:"messageEquals"`
		MessageContains string  `json:"messageContains"`
		Unchanged       bool    `json:"unchanged"`
		Fields          []struct {
			Path  string `json:"path"`
			Value any    `json:"value"`
		} `json:"fields"`
	} `json:"expect"`
}

// An answer is one of an HTTP service.
type answer struct {
	Path         string            `json:"path"`
	Method       string            `json:"method"`
	RequireQuery map[string]string `json:"requireQuery"`
	RequireBody  any               `json:"requireBody"`
	Status       int               `json:"status"`
	Body         any               `json:"body"`
	RawBody      string            `json:"rawBody"`
}

func loadCases(t *testing.T, path string) []*testCase {
	t.Helper()
	file, err := os.Open(filepath.Clean(path))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var cases []*testCase
	for decoder := utilyaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		c := &testCase{}
		err := decoder.Decode(c)
		if errors.Is(err, io.EOF) {
			return cases
		}
		if err != nil {
			t.Fatalf("read %s: %v", path, err)
		}
		cases = append(cases, c)
	}
}

// services answers as the case's HTTP services; it lives as long as the test.
func (c *testCase) services(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		for _, a := range c.HTTP {
			if !a.fits(r, body) {
				continue
			}
			if a.Status != 0 {
				w.WriteHeader(a.Status)
			}
			if a.RawBody != "" {
				_, _ = io.WriteString(w, a.RawBody)
				return
			}
			_ = json.NewEncoder(w).Encode(a.Body)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// calls reports whether one of the case's services is called with an HTTP method.
func (c *testCase) calls(method string) bool {
	return slices.ContainsFunc(c.HTTP, func(a answer) bool { return a.Method == method })
}

func (a *answer) fits(r *http.Request, body []byte) bool {
	if a.Path != "" && a.Path != r.URL.Path || a.Method != "" && a.Method != r.Method {
		return false
	}
	for key, value := range a.RequireQuery {
		if r.URL.Query().Get(key) != value {
			return false
		}
	}
	if a.RequireBody == nil {
		return true
	}
	var got any
	return json.Unmarshal(body, &got) == nil && reflect.DeepEqual(got, a.RequireBody)
}

// policies are the policies of the case, which call its services.
func (c *testCase) policies(t *testing.T, dir, services string) []*unstructured.Unstructured {
	t.Helper()
	var policies []*unstructured.Unstructured
	for _, name := range c.Policy {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.ReplaceAll(text, []byte("http://stub.invalid"), []byte(services))
		policy := &unstructured.Unstructured{}
		if err := utilyaml.Unmarshal(text, &policy.Object); err != nil {
			t.Fatalf("read %s: %v", name, err)
		}
		policies = append(policies, policy)
	}
	return policies
}

// verify compares what the API server answered with what the case expects. Before is the
// same request's result without the policy.
func (c *testCase) verify(before, after *unstructured.Unstructured, err error) error {
	if c.Expect.Allowed != nil && !*c.Expect.Allowed {
		return c.verifyDenial(err)
	}
	if err != nil {
		return fmt.Errorf("got %w, want the request allowed", err)
	}
	if c.Expect.Unchanged {
		if got, want := essence(after), essence(before); !reflect.DeepEqual(got, want) {
			return fmt.Errorf("the policy changed the object\nto   %v\nfrom %v", got, want)
		}
	}
	for _, field := range c.Expect.Fields {
		got, ok := at(after.Object, field.Path)
		if !ok || !holds(got, field.Value) {
			return fmt.Errorf("%s is %v, want %v", field.Path, got, field.Value)
		}
	}
	return nil
}

func (c *testCase) verifyDenial(err error) error {
	message, ok := denial(err)
	if !ok {
		return fmt.Errorf("got %w, want a denial", orNil(err))
	}
	message, named := bare(message)
	if !named {
		return fmt.Errorf("denied with %q, want the policy named at the end", message)
	}
	// What the decision does not say, such as the message of affectMode allow, users are told.
	if want := c.Expect.MessageEquals; want != nil && *want != "" && message != *want {
		return fmt.Errorf("denied with %q, want %q", message, *want)
	}
	if want := c.Expect.MessageContains; !strings.Contains(message, want) {
		return fmt.Errorf("denied with %q, want %q in it", message, want)
	}
	if code := codeOf(err); c.Expect.Code != 0 && code != c.Expect.Code {
		return fmt.Errorf("denied with code %d, want %d", code, c.Expect.Code)
	}
	return nil
}

// byPolicy is how a door names a policy behind a reason; an engine names a failing rule, too.
var byPolicy = regexp.MustCompile(` \(\w+Policy [^ )]+( \S+)?\)(; |$)`)

// bare is the message of the decision behind what a user is told, without the policies that
// the door names.
func bare(told string) (message string, named bool) {
	message = byPolicy.ReplaceAllStringFunc(told, func(by string) string {
		if byPolicy.FindStringSubmatch(by)[1] != "" {
			return by
		}
		return byPolicy.FindStringSubmatch(by)[2]
	})
	return message, byPolicy.MatchString(told)
}

// at is the value at a JSON pointer.
func at(tree any, pointer string) (any, bool) {
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		switch node := tree.(type) {
		case map[string]any:
			value, ok := node[step]
			if !ok {
				return nil, false
			}
			tree = value
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(node) {
				return nil, false
			}
			tree = node[i]
		default:
			return nil, false
		}
	}
	return tree, true
}

// holds reports whether a value is the wanted one, after the API server has added its
// defaults and written quantities its own way.
func holds(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		node, ok := got.(map[string]any)
		for key, value := range want {
			ok = ok && holds(node[key], value)
		}
		return ok
	case []any:
		list, ok := got.([]any)
		for _, value := range want {
			ok = ok && contains(list, value)
		}
		return ok
	}
	if fmt.Sprint(got) == fmt.Sprint(want) {
		return true
	}
	a, errA := resource.ParseQuantity(fmt.Sprint(got))
	b, errB := resource.ParseQuantity(fmt.Sprint(want))
	return errA == nil && errB == nil && a.Cmp(b) == 0
}

func contains(list []any, want any) bool {
	for _, got := range list {
		if holds(got, want) {
			return true
		}
	}
	return false
}

// essence is an object without what differs each time that it is created.
func essence(object *unstructured.Unstructured) map[string]any {
	tree := object.DeepCopy().Object
	metadata, _ := tree["metadata"].(map[string]any)
	for _, field := range []string{"uid", "creationTimestamp", "managedFields", "resourceVersion"} {
		delete(metadata, field)
	}
	spec, _ := tree["spec"].(map[string]any)
	// The token's volume has a random name.
	delete(spec, "volumes")
	containers, _ := spec["containers"].([]any)
	for _, entry := range containers {
		if container, ok := entry.(map[string]any); ok {
			delete(container, "volumeMounts")
		}
	}
	return tree
}
