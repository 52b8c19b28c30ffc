package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A schema is one of the description of the API.
type schema struct {
	Ref        string            `json:"$ref"`
	Type       any               `json:"type"`
	Properties map[string]schema `json:"properties"`
	Items      *schema           `json:"items"`
}

// A description is that of the API.
type description struct {
	Paths map[string]map[string]struct {
		Responses map[string]struct {
			Content map[string]struct {
				Schema schema `json:"schema"`
			} `json:"content"`
		} `json:"responses"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
}

// TestTheClusterSpeaksTheAPI compares the cluster of these tests with what the server says that it answers.
func TestTheClusterSpeaksTheAPI(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("token"), 0o600); err != nil {
		t.Fatal(err)
	}
	// It answers what it can answer before it asks anyone.
	s := serve(t, "--server=https://127.0.0.1:1", "--token-file="+token)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	fetch := func(address string, into any) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if into != nil {
			err = json.NewDecoder(response.Body).Decode(into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	fetch(s.address, nil)
	var api description
	origin, _, _ := strings.Cut(s.address, "/?")
	fetch(origin+"/api/v1/openapi.json", &api)
	for who, c := range map[string]*cluster{"full": full(), "nobody": nobody()} {
		for path, answer := range c.answers {
			if f, ok := answer.(func(object) any); ok {
				answer = f(object{})
			}
			for _, operation := range api.Paths[strings.TrimSuffix("/api/v1/live/"+path, "/")] {
				api.check(t, who+": live/"+path, operation.Responses["200"].Content["application/json"].Schema, answer)
			}
			if api.Paths[strings.TrimSuffix("/api/v1/live/"+path, "/")] == nil {
				t.Errorf("the API has no live/%s", path)
			}
		}
	}
}

// check compares a value with a schema: names of fields, and what is a list or a text.
func (d *description) check(t *testing.T, at string, of schema, value any) {
	t.Helper()
	for of.Ref != "" {
		of = d.Components.Schemas[strings.TrimPrefix(of.Ref, "#/components/schemas/")]
	}
	kinds, _ := json.Marshal(of.Type)
	fits := func(kind string) {
		t.Helper()
		if of.Type != nil && !strings.Contains(string(kinds), kind) {
			t.Errorf("%s is of type %s in the API, and not %s", at, kinds, kind)
		}
	}
	switch v := value.(type) {
	case object:
		fits("object")
		for key, inner := range v {
			property, found := of.Properties[key]
			if !found && of.Properties != nil {
				t.Errorf("%s.%s is not in the API", at, key)
			}
			d.check(t, at+"."+key, property, inner)
		}
	case []any:
		fits("array")
		if of.Items != nil {
			for _, inner := range v {
				d.check(t, at+"[]", *of.Items, inner)
			}
		}
	case string:
		fits("string")
	case bool:
		fits("boolean")
	case int, float64:
		fits("integer")
	}
}
