package trial_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/trial"
)

// TestManyUnknownSchemas: a policy for everything is told once of Usher's own kinds, and once of all other
// resources without a schema, however many there are.
func TestManyUnknownSchemas(t *testing.T) {
	t.Parallel()
	var own []kind.Resource
	for _, k := range api.Kinds() {
		for _, name := range []string{k.Resource, k.Resource + "/status"} {
			own = append(own, kind.Resource{Group: k.Group, Version: k.Version, Kind: k.Kind, Name: name, Verbs: []string{"create", "update"}})
		}
	}
	others := func(names ...string) []kind.Resource {
		var all []kind.Resource
		for _, name := range names {
			all = append(all, kind.Resource{Group: "example.com", Version: "v1", Kind: name, Name: name, Verbs: []string{"create"}})
		}
		return all
	}
	const ours = "objects of Usher's own kinds (clusteroverridepolicies, clustervalidatepolicies, overridepolicies, " +
		"authorizationpolicies, clusterauthorizationpolicies, clusterobjectpolicies, clusterpolicycandidates, clusterpolicyexemptions, objectpolicies, policycandidates, policyexemptions): their schema is not known"
	for _, test := range []struct {
		reason string
		exist  []kind.Resource
		match  string
		want   []string
	}{
		{"everything", own, "*/* */*", []string{ours}},
		{"everything but subresources", own, "*/* *", []string{ours}},
		{"one of another group besides", append(others("a"), own...), "*/* */*", []string{ours, "objects of the resource a: their schema is not known"}},
		{"some of another group", others("a", "b", "c"), "example.com/* *", []string{"objects of the resources a, b, c: their schemas are not known"}},
		{"all are named if one would be left", others("a", "b", "c", "d", "e", "f"), "example.com/* *", []string{"objects of the resources a, b, c, d, e, f: their schemas are not known"}},
		{"many of another group", others("a", "b", "c", "d", "e", "f", "g"), "example.com/* *", []string{"objects of the resources a, b, c, d, e and 2 others: their schemas are not known"}},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			set := kind.New(test.exist, map[string]json.RawMessage{}, true)
			try := trial.New(trial.Options{Kinds: func(context.Context, *kind.Set, []schema.GroupVersionKind) *kind.Set { return set }})
			got := try.Try(t.Context(), admissionPolicy(t, []string{test.match}, validations("request.name != 'x'"))).Skipped
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("not tried (-want +got):\n%s", diff)
			}
		})
	}
}
