package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
)

func TestProtect(t *testing.T) {
	t.Parallel()
	const marked, plain = `{"metadata":{"labels":{"example.com/protected":"true"}}}`, `{"metadata":{"labels":{"a":"b"}}}`
	tests := []struct {
		reason    string
		operation usher.Operation
		old, new  string
		groups    []string
		denied    string
	}{
		{"new objects are free", usher.Create, "", marked, nil, ""},
		{"others can go", usher.Delete, plain, "", nil, ""},
		{"protected ones cannot", usher.Delete, marked, "", nil, "Secret keys is protected: remove the label example.com/protected first"},
		{"not even by administrators", usher.Delete, marked, "", []string{"system:masters"}, "Secret keys is protected: remove the label example.com/protected first"},
		{"others can change", usher.Update, plain, plain, nil, ""},
		{"everybody can protect", usher.Update, plain, marked, nil, ""},
		{"protected ones can change", usher.Update, marked, marked, nil, ""},
		{"the label stays", usher.Update, marked, plain, []string{"dev"}, "the label example.com/protected may be removed by administrators only"},
		{"unless an administrator takes it off", usher.Update, marked, plain, []string{"dev", "system:masters"}, ""},
	}
	for _, test := range tests {
		decision, err := protect(t.Context(), &usher.Request{
			Operation: test.operation, Kind: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, Name: "keys", User: usher.User{Groups: test.groups},
			OldObject: usher.RawObject([]byte(test.old)), Object: usher.RawObject([]byte(test.new)),
		})
		if err != nil || decision.Message != test.denied || (decision.Verdict == usher.Deny) != (test.denied != "") {
			t.Errorf("%s: %s %q, %v", test.reason, decision.Verdict, decision.Message, err)
		}
	}
}

func TestProtectWithoutObject(t *testing.T) {
	t.Parallel()
	if decision, err := protect(t.Context(), &usher.Request{Operation: usher.Delete}); err == nil {
		t.Errorf("decided %+v", decision)
	}
}
