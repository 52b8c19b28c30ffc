package interpret_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/convert/kyverno/corpus"
	"github.com/usher-dev/usher/internal/convert/kyverno/interpret"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

func policyOf(t *testing.T, f *corpus.File) *interpret.Policy {
	t.Helper()
	policy, wrong := syntax.Decode(f.Policy)
	if len(wrong) > 0 {
		t.Skip(wrong[0].Error())
	}
	var exceptions []*syntax.Exception
	for _, e := range f.Exceptions {
		exception, wrong := syntax.DecodeException(e)
		if len(wrong) > 0 {
			t.Fatal(wrong[0])
		}
		exceptions = append(exceptions, exception)
	}
	return interpret.Of(policy, exceptions)
}

func requestOf(r *corpus.Row) *interpret.Request {
	return &interpret.Request{
		Operation: r.Operation, Object: r.Object, OldObject: r.OldObject, Subresource: r.Subresource, NamespaceLabels: r.NamespaceLabels, Data: r.Data,
		User: interpret.User{Name: r.User.Name, Groups: r.User.Groups, Roles: r.User.Roles, ClusterRoles: r.User.ClusterRoles},
	}
}

// The interpreter answers as Kyverno's engine does.
func TestAnswers(t *testing.T) {
	t.Parallel()
	files, err := corpus.Load("../testdata/corpus")
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		f := &files[i]
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			p := policyOf(t, f)
			for n := range f.Rows {
				r := &f.Rows[n]
				answers, err := p.Answers(requestOf(r))
				if _, unread := errors.AsType[*interpret.Unread](err); unread {
					t.Skip(err)
				}
				if panics := slices.Contains(slices.Collect(maps.Values(r.Answers)), "panic"); panics != (err != nil) {
					t.Errorf("%s: %v", r.Name, err)
				}
				if err != nil {
					continue
				}
				got, expected := form(answers), form(r.Answers)
				if got != expected {
					t.Errorf("%s: %s, expected %s", r.Name, got, expected)
				}
			}
		})
	}
}

// The interpreter changes objects as Kyverno's engine does.
func TestChanges(t *testing.T) {
	t.Parallel()
	files, err := corpus.Load("../testdata/mutations")
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		f := &files[i]
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			p := policyOf(t, f)
			for n := range f.Rows {
				r := &f.Rows[n]
				changed, answers, err := p.Changed(requestOf(r))
				if err != nil {
					t.Fatal(err)
				}
				if got, expected := form(answers), form(r.Answers); got != expected {
					t.Errorf("%s: %s, expected %s", r.Name, got, expected)
					continue
				}
				want := r.Patched
				if want == nil {
					want = r.Object
				}
				got, _ := json.Marshal(changed)
				expected, _ := json.Marshal(want)
				if changed != nil && string(got) != string(expected) {
					t.Errorf("%s: got %s, want %s", r.Name, got, expected)
				}
			}
		})
	}
}

func form[S ~string](answers map[string]S) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		all = append(all, fmt.Sprintf("%s: %s", name, answers[name]))
	}
	return strings.Join(all, ", ")
}
