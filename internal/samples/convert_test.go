package samples_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/usher-dev/usher/internal/samples"
)

func TestHostPort(t *testing.T) {
	t.Parallel()
	const v1, v2 = "stable.example.com/v1", "stable.example.com/v2"
	tests := []struct {
		reason   string
		from, to string
		fields   map[string]any
		want     map[string]any
		err      string
	}{
		{"one field becomes two", v1, v2, map[string]any{"hostPort": "h:80", "a": int64(1)}, map[string]any{"host": "h", "port": "80", "a": int64(1)}, ""},
		{"two fields become one", v2, v1, map[string]any{"host": "h", "port": "80"}, map[string]any{"hostPort": "h:80"}, ""},
		{"a field that is missing is empty", v2, v1, map[string]any{"port": "80"}, map[string]any{"hostPort": ":80"}, ""},
		{"the other one, too", v2, v1, map[string]any{"host": "h"}, map[string]any{"hostPort": "h:"}, ""},
		{"a port that is a number", v2, v1, map[string]any{"host": "h", "port": int64(80)}, map[string]any{"hostPort": "h:80"}, ""},
		{"nothing to split", v1, v2, map[string]any{"a": "b"}, map[string]any{"a": "b"}, ""},
		{"nothing to join", v2, v1, map[string]any{"a": "b"}, map[string]any{"a": "b"}, ""},
		{"one part", v1, v2, map[string]any{"hostPort": "h"}, nil, "invalid hostPort value `h`"},
		{"three parts", v1, v2, map[string]any{"hostPort": "h:1:2"}, nil, "invalid hostPort value `h:1:2`"},
		{"no text", v1, v2, map[string]any{"hostPort": int64(7)}, nil, "invalid hostPort value `7`"},
		{"to itself", v1, v1, nil, nil, "conversion from a version to itself should not call the webhook: " + v1},
		{"to something unknown", v1, "stable.example.com/v3", nil, nil, `unexpected conversion version "stable.example.com/v3"`},
		{"from something unknown", "stable.example.com/v3", v1, nil, nil, `unexpected conversion version "stable.example.com/v3"`},
	}
	for _, test := range tests {
		object := map[string]any{"apiVersion": test.from}
		maps.Copy(object, test.fields)
		err := samples.HostPort{}.Convert(t.Context(), &unstructured.Unstructured{Object: object}, test.to)
		if got := text(err); got != test.err {
			t.Errorf("%s: error %q, want %q", test.reason, got, test.err)
		}
		if err != nil {
			continue
		}
		delete(object, "apiVersion")
		if diff := cmp.Diff(test.want, object); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
