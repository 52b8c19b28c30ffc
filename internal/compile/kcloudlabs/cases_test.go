package kcloudlabs_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/json"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/policytest"
)

const cases = "../../policytest/testdata/kinitiras"

// A testCase is what a case file says of policies and of the world.
type testCase struct {
	Name     string           `json:"name"`
	Phase    usher.Phase      `json:"phase"`
	Policies []map[string]any `json:"policies"`
	Objects  []map[string]any `json:"objects"`
	HTTP     []struct {
		Path           string            `json:"path"`
		Method         string            `json:"method"`
		RequireHeader  map[string]string `json:"requireHeader"`
		RequireQuery   map[string]string `json:"requireQuery"`
		Body           any               `json:"body"`
		RawBody        string            `json:"rawBody"`
		ResponseHeader map[string]string `json:"responseHeader"`
	} `json:"http"`
	Request struct {
		Operation usher.Operation `json:"operation"`
		Namespace string          `json:"namespace"`
		Object    map[string]any  `json:"object"`
		OldObject map[string]any  `json:"oldObject"`
	} `json:"request"`
}

func loadCases(t *testing.T) []testCase {
	t.Helper()
	documents, err := policytest.Documents(cases)
	if err != nil {
		t.Fatal(err)
	}
	loaded := make([]testCase, len(documents))
	for i, d := range documents {
		if err := d.Case(&loaded[i]); err != nil {
			t.Fatalf("%s: %v", d.File, err)
		}
	}
	return loaded
}

// written returns the policies of a case: those that are stored, and the one that the
// request is about.
func (c *testCase) written(t *testing.T) []api.Policy {
	t.Helper()
	var policies []api.Policy
	for _, tree := range append(slices.Clone(c.Policies), c.Request.Object) {
		if apiVersion, _ := tree["apiVersion"].(string); !strings.HasPrefix(apiVersion, "policy.kcloudlabs.io/") {
			continue
		}
		raw, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		policy, err := api.Decode(raw)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		policies = append(policies, policy)
	}
	return policies
}

// resolve knows the objects and the HTTP answers of the case, and nothing else.
func (c *testCase) resolve(ref fact.Ref) (any, error) {
	if o, ok := ref.(*fact.Object); ok {
		return c.object(o)
	}
	return c.answer(ref.(*fact.HTTP))
}

func (c *testCase) object(want *fact.Object) (any, error) {
	var found []map[string]any
	for _, tree := range c.Objects {
		metadata, _ := tree["metadata"].(map[string]any)
		namespace, _ := metadata["namespace"].(string)
		switch {
		case tree["apiVersion"] != want.APIVersion || tree["kind"] != want.Kind:
		case want.Namespace != "" && namespace != want.Namespace && !(want.AnyScope && namespace == ""):
		case want.Name != "" && metadata["name"] != want.Name:
		case want.Name == "" && (want.Selector == nil || !want.Selector.Matches(tree)):
		default:
			found = append(found, tree)
		}
	}
	if len(found) == 0 {
		if want.Name != "" {
			return nil, fmt.Errorf("%s: not found", want)
		}
		return nil, nil
	}
	return slices.MinFunc(found, func(a, b map[string]any) int {
		return cmp.Compare(fmt.Sprint(a["metadata"]), fmt.Sprint(b["metadata"]))
	}), nil
}

func (c *testCase) answer(want *fact.HTTP) (any, error) {
	u, err := url.Parse(want.URL)
	if err != nil {
		return nil, err
	}
	for _, stub := range c.HTTP {
		fits := stub.Path == u.Path && (stub.Method == "" || strings.EqualFold(stub.Method, want.Method))
		for name, value := range stub.RequireHeader {
			if !strings.EqualFold(name, "Authorization") {
				fits = fits && want.Header[name] == value
			}
		}
		for name, value := range stub.RequireQuery {
			fits = fits && u.Query().Get(name) == value
		}
		if !fits {
			continue
		}
		body, ok := stub.Body.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: the body is no JSON object", want.URL)
		}
		header := map[string]any{}
		for name, value := range stub.ResponseHeader {
			header[http.CanonicalHeaderKey(name)] = []any{value}
		}
		return map[string]any{"body": body, "header": header, "trailer": map[string]any{}}, nil
	}
	return map[string]any{"body": map[string]any{"error": "not found"}, "header": map[string]any{}, "trailer": map[string]any{}}, nil
}

// variants returns an object and copies of it, each with one field left out, emptied, or
// of another type. All of them have a kind: an API server sends nothing else.
func variants(object map[string]any) []map[string]any {
	all := []map[string]any{object}
	var walk func(value any, rebuild func(any) map[string]any)
	walk = func(value any, rebuild func(any) map[string]any) {
		switch value := value.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(value)) {
				rest := maps.Clone(value)
				delete(rest, key)
				with := func(v any) map[string]any {
					changed := maps.Clone(rest)
					changed[key] = v
					return rebuild(changed)
				}
				all = append(all, rebuild(rest))
				for _, other := range others(value[key]) {
					all = append(all, with(other))
				}
				walk(value[key], with)
			}
		case []any:
			for i := range value {
				walk(value[i], func(v any) map[string]any {
					changed := slices.Clone(value)
					changed[i] = v
					return rebuild(changed)
				})
			}
		}
	}
	walk(object, func(v any) map[string]any { return v.(map[string]any) })
	return slices.DeleteFunc(all, func(object map[string]any) bool {
		_, ok := object["kind"].(string)
		return !ok
	})
}

// others returns values that may stand where value stands.
func others(value any) []any {
	switch value := value.(type) {
	case map[string]any:
		if len(value) > 0 {
			return []any{map[string]any{}, nil}
		}
	case []any:
		if len(value) > 0 {
			return []any{[]any{}, nil}
		}
	case string:
		return []any{"", nil, int64(7)}
	case nil:
		return []any{"text"}
	}
	return []any{nil, "text"}
}
