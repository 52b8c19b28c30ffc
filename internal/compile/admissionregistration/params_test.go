package admissionregistration_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/simulate"
)

// TestParamsOfNoKind is about a kind of params whose CustomResourceDefinition does not exist: only a
// cluster knows that, files do not.
func TestParamsOfNoKind(t *testing.T) {
	t.Parallel()
	missing := fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) {
		return nil, &fact.NoKind{APIVersion: "limits.example/v1", Kind: "Limit"}
	})
	for _, s := range []situation{
		{reason: "by name", policy: customParams("Limit"), binding: `paramRef: {name: few, parameterNotFoundAction: Allow}`, check: "failed to configure policy: failed to find resource referenced by paramKind: 'limits.example/v1, Kind=Limit'"},
		{reason: "by selector", policy: customParams("Limit"), binding: `validationActions: [Warn], paramRef: {selector: {}, parameterNotFoundAction: Allow}`, check: "failed to configure policy"},
		{reason: "ignored", policy: "failurePolicy: Ignore, " + customParams("Limit"), binding: `paramRef: {name: few, parameterNotFoundAction: Deny}`, check: letThrough},
	} {
		t.Run(s.reason, func(t *testing.T) {
			t.Parallel()
			policies := s.policies(t)
			w := newTwin(t, []map[string]any{tree(t, shop)}, policies...)
			var read []api.Policy
			for _, p := range policies {
				read = append(read, api.Policy{Object: p})
			}
			rules, _ := compile.Policies(read)
			w.decider = engine.New(index.New(rules), missing, engine.Options{})
			request := simulate.Request{Operation: usher.Create, Object: tree(t, pod)}
			bare, err := w.bare.Run(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			trace, err := w.sim.Run(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			want, got := w.upstream(trace), w.usher(t, &request, bare)
			got.Said = want.Said
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-upstream +usher:\n%s", diff)
			}
			if !strings.Contains(want.Message, s.check) && !(s.check == letThrough && want.Admitted) {
				t.Errorf("upstream says %+v, want %q", want, s.check)
			}
		})
	}
}
