package admissionregistration_test

import (
	"testing"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/internal/policytest"
	"github.com/usher-dev/usher/simulate"
)

// TestCasesDecideAsUpstream asks upstream's plugin about the cases of Kubernetes' own policies, whose
// expectations are written down: neither may be wrong alone.
func TestCasesDecideAsUpstream(t *testing.T) {
	t.Parallel()
	cases, err := policytest.Load("../../policytest/testdata/vap")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			r, err := c.Request.For(c.Phase)
			if err != nil {
				t.Fatal(err)
			}
			objects := c.Objects
			if r.Namespace != "" && r.Resource.Resource != "namespaces" {
				objects = append([]map[string]any{object.Namespace(r.Namespace)}, objects...)
			}
			w := newTwin(t, objects, policiesOf(t, c)...)
			want := w.compare(t, simulate.Request{
				Operation: r.Operation, Object: c.Request.Object, OldObject: c.Request.OldObject, Name: r.Name, Namespace: r.Namespace,
				Resource: c.Request.Resource, Subresource: r.Subresource, User: r.User, DryRun: r.DryRun, Options: c.Request.Options,
			})
			if e := c.Expected(); e.Allowed != nil && *e.Allowed != want.Admitted || e.MessageEquals != nil && *e.MessageEquals != want.Message {
				t.Errorf("the case expects something else than upstream answers: admitted %v, %s", want.Admitted, want.Message)
			}
		})
	}
}

func policiesOf(t *testing.T, c *policytest.Case) []api.Object {
	t.Helper()
	var all []api.Object
	for _, p := range c.Policies {
		all = append(all, policyIn(t, p))
	}
	return all
}
