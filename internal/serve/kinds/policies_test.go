package kinds_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/openapi"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/serve/kinds"
	"github.com/usher-dev/usher/internal/serve/page"
	clustersource "github.com/usher-dev/usher/source/cluster"
)

// TestCRDsThatDifferFromThisVersion removes fields from the CRDs of this version.
func TestCRDsThatDifferFromThisVersion(t *testing.T) {
	t.Parallel()
	const objects, overrides = "ClusterObjectPolicy", "OverridePolicy"
	for _, test := range []struct {
		reason string
		// without are fields that are removed, by kind.
		without  map[string][]string
		readings map[string]error
		want     string
		counts   map[string]int
	}{
		{"they are those of this version", nil, nil, "", map[string]int{"read": 11}},
		{
			"a field is missing", map[string][]string{objects: {"spec.namespaceExemptions"}}, nil,
			"  ClusterObjectPolicy: its CRD lacks spec.namespaceExemptions, which the API server drops: apply the CRDs of this version of Usher: kubectl apply --server-side --force-conflicts -f deploy/crds\n",
			map[string]int{"read": 10, "older": 1},
		},
		{
			"a field with fields is missing: these are not told", map[string][]string{objects: {"spec.bindings"}}, nil,
			"  ClusterObjectPolicy: its CRD lacks spec.bindings, which the API server drops: apply the CRDs of this version of Usher: kubectl apply --server-side --force-conflicts -f deploy/crds\n",
			map[string]int{"read": 10, "older": 1},
		},
		{
			"fields of elements of a list, and of the status", map[string][]string{objects: {"spec.bindings.[].params", "status.problems"}, overrides: {"status"}}, nil,
			"  ClusterObjectPolicy: its CRD lacks spec.bindings[].params, status.problems, which the API server drops: apply the CRDs of this version of Usher: kubectl apply --server-side --force-conflicts -f deploy/crds\n" +
				"  OverridePolicy: its CRD lacks status, which the API server drops: apply the CRDs of this version of Usher: kubectl apply --server-side --force-conflicts -f deploy/crds\n",
			map[string]int{"read": 9, "older": 2},
		},
		{
			"many fields are missing", map[string][]string{objects: {"spec.data", "spec.bindings", "spec.links", "spec.category", "spec.severity", "spec.subjects", "spec.variables"}}, nil,
			"  ClusterObjectPolicy: its CRD lacks spec.bindings, spec.category, spec.data, spec.links, spec.severity and 2 more, which the API server drops: apply the CRDs of this version of Usher: kubectl apply --server-side --force-conflicts -f deploy/crds\n",
			map[string]int{"read": 10, "older": 1},
		},
		{
			"kinds are missing, or may not be read", nil,
			map[string]error{objects: clustersource.ErrAbsent, "PolicyExemption": clustersource.ErrForbidden, overrides: errors.New("no answer")},
			"  ClusterObjectPolicy: the cluster has no such kind: apply the CRDs of this version of Usher: kubectl apply --server-side --force-conflicts -f deploy/crds\n" +
				"  OverridePolicy: they cannot be read now: no answer\n" +
				"  PolicyExemption: Usher may not read them: apply the chart of this version, whose ClusterRole grants get, list and watch\n",
			map[string]int{"read": 8, "absent": 1, "forbidden": 1, "failing": 1},
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			served := &servedCRDs{t: t, without: test.without}
			policies := kinds.NewPolicies(served, func() []clustersource.Reading { return readings(test.readings) }, func() {}, slog.New(slog.DiscardHandler))
			if err := policies.Read(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sorted(test.want), sorted(described(policies))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			want := map[string]int{"read": 2, "older": 0, "absent": 0, "forbidden": 0, "failing": 0}
			maps.Copy(want, test.counts)
			if diff := cmp.Diff(want, policies.Count()); diff != "" {
				t.Errorf("kinds by state (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCRDsAreReadWhenTheyChange: an upgrade of the CRDs ends what is said about them, also if the API
// server lists the new schemas before it serves them, and schemas that have not changed and lack no
// field are not read again.
func TestCRDsAreReadWhenTheyChange(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	served := &servedCRDs{t: t, without: map[string][]string{"ObjectPolicy": {"spec.data"}}}
	policies := kinds.NewPolicies(served, func() []clustersource.Reading { return readings(nil) }, func() {}, slog.New(slog.NewTextHandler(&log, nil)))
	read := func() {
		t.Helper()
		if err := policies.Read(); err != nil {
			t.Fatal(err)
		}
	}
	read()
	if served.reads != 2 {
		t.Errorf("%d documents read, want those of 2 groups", served.reads)
	}
	read()
	if served.reads != 3 {
		t.Errorf("%d documents read, want those of 2 groups, and that which lacks fields again", served.reads)
	}
	if n := strings.Count(log.String(), "older than Usher"); n != 1 {
		t.Errorf("%d records, want 1:\n%s", n, &log)
	}
	served.version = 1
	read()
	served.without = nil
	read()
	if text := described(policies); text != "" || !strings.Contains(log.String(), "the CRD has all fields of this version") {
		t.Errorf("after the upgrade: %s\n%s", text, &log)
	}
	reads := served.reads
	read()
	if served.reads != reads {
		t.Errorf("%d documents read again, want none: no kind lacks fields", served.reads-reads)
	}
	served.err = errors.New("no answer")
	served.version = 2
	if err := policies.Read(); !errors.Is(err, served.err) {
		t.Errorf("error is %v, want %v", err, served.err)
	}
}

func readings(errs map[string]error) []clustersource.Reading {
	var all []clustersource.Reading
	for _, kind := range api.Kinds() {
		all = append(all, clustersource.Reading{Kind: kind.GroupKind(), Version: kind.Version, Err: errs[kind.Kind]})
	}
	return all
}

// servedCRDs are the CRDs of this version as an API server serves their schemas.
type servedCRDs struct {
	t       *testing.T
	without map[string][]string
	version int
	err     error
	reads   int
}

// Paths implements [openapi.Client].
func (s *servedCRDs) Paths() (map[string]openapi.GroupVersion, error) {
	documents := map[string]openapi.GroupVersion{}
	for _, kind := range api.Kinds() {
		gv := kind.GroupVersion()
		documents["apis/"+gv.String()] = servedGroup{s, gv}
	}
	return documents, nil
}

type servedGroup struct {
	*servedCRDs
	gv schema.GroupVersion
}

func (s servedGroup) ServerRelativeURL() string { return fmt.Sprintf("/%s?hash=%d", s.gv, s.version) }

func (s servedGroup) Schema(string) ([]byte, error) {
	s.reads++
	schemas := map[string]any{}
	for _, kind := range api.Kinds() {
		if kind.GroupVersion() != s.gv {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "crds", kind.Group+"_"+kind.Resource+".yaml"))
		if err != nil {
			s.t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Versions []struct {
					Schema struct{ OpenAPIV3Schema map[string]any }
				}
			}
		}
		if err := yaml.Unmarshal(text, &crd); err != nil {
			s.t.Fatal(err)
		}
		definition := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		definition["x-kubernetes-group-version-kind"] = []any{map[string]any{"group": kind.Group, "version": kind.Version, "kind": kind.Kind}}
		for _, path := range s.without[kind.Kind] {
			remove(s.t, definition, strings.Split(path, "."))
		}
		schemas[kind.Kind] = definition
	}
	raw, err := json.Marshal(map[string]any{"components": map[string]any{"schemas": schemas}})
	return raw, errors.Join(err, s.err)
}

// remove removes a field from a schema.
func remove(t *testing.T, of map[string]any, path []string) {
	t.Helper()
	if path[0] == "[]" {
		remove(t, of["items"].(map[string]any), path[1:])
		return
	}
	fields := of["properties"].(map[string]any)
	field, ok := fields[path[0]].(map[string]any)
	if !ok {
		t.Fatalf("no field %s", path[0])
	}
	if len(path) == 1 {
		delete(fields, path[0])
		return
	}
	remove(t, field, path[1:])
}

// described returns what /readyz?verbose says.
func described(p *kinds.Policies) string {
	b := page.Page{Named: true}
	p.Describe(&b)
	return b.String()
}

// sorted returns lines in order.
func sorted(text string) []string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return lines
}
