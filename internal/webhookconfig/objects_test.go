package webhookconfig_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

var update = flag.Bool("update", false, "write testdata anew")

var silent = slog.New(slog.DiscardHandler)

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for kind, scope := range map[string]meta.RESTScope{
		"v1 Secret": meta.RESTScopeNamespace, "v1 ConfigMap": meta.RESTScopeNamespace, "v1 Namespace": meta.RESTScopeRoot,
		"apps/v1 Deployment": meta.RESTScopeNamespace, "batch/v1 Job": meta.RESTScopeNamespace,
		"policy.kcloudlabs.io/v1alpha1 OverridePolicy": meta.RESTScopeNamespace,
	} {
		apiVersion, name, _ := strings.Cut(kind, " ")
		m.Add(schema.FromAPIVersionAndKind(apiVersion, name), scope)
	}
	return m
}

func covered(apiVersion, kind string, operations ...usher.Operation) rule.Covered {
	return rule.Covered{APIVersion: apiVersion, Kind: kind, Operations: operations}
}

func inNamespaces(c rule.Covered, namespaces ...string) rule.Covered {
	c.Namespaces = namespaces
	return c
}

// TestObjects compares whole configurations with testdata, which was accepted by an API
// server.
func TestObjects(t *testing.T) {
	t.Parallel()
	tests := []struct {
		file     string
		options  webhookconfig.Options
		coverage rule.Coverage
		caBundle string
	}{
		{"nothing.yaml", webhookconfig.Options{Namespace: "usher-system", Service: "usher"}, rule.Coverage{}, "CA"},
		{
			"some.yaml",
			webhookconfig.Options{
				Name: "other", URL: "https://127.0.0.1:8443/", FailurePolicy: admissionv1.Fail, TimeoutSeconds: 3,
				ReviewVersions: []string{"v1beta1"}, Reinvocation: admissionv1.IfNeededReinvocationPolicy,
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"usher": "on"}},
				ObjectSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{"usher": "on"}},
			},
			rule.Coverage{
				Mutate:   []rule.Covered{inNamespaces(covered("v1", "Pod"), "bank", "shop")},
				Validate: []rule.Covered{covered("v1", "Pod", usher.Create), covered("v1", "Secret", usher.Create), covered("apps/v1", "Deployment")},
			},
			"",
		},
		{
			"reinvoked.yaml",
			webhookconfig.Options{Namespace: "usher-system", Service: "usher"},
			rule.Coverage{
				Mutate:          []rule.Covered{covered("v1", "Secret", usher.Create)},
				MutateResources: []rule.CoveredResource{{ResourceRule: rule.ResourceRule{Operations: []usher.Operation{usher.Create}, Groups: []string{"batch"}, Versions: []string{"v1"}, Resources: []string{"jobs"}}}},
				MutateReinvoked: []rule.CoveredResource{{ResourceRule: rule.ResourceRule{Operations: []usher.Operation{usher.Create, usher.Update}, Groups: []string{""}, Versions: []string{"v1"}, Resources: []string{"pods"}}}},
			},
			"",
		},
		{
			"existing.yaml",
			webhookconfig.Options{Namespace: "usher-system", Service: "usher", FailurePolicy: admissionv1.Fail},
			rule.Coverage{
				ValidateResources: []rule.CoveredResource{{ResourceRule: rule.ResourceRule{Operations: []usher.Operation{usher.Create}, Groups: []string{""}, Versions: []string{"v1"}, Resources: []string{"namespaces", "pods"}}}},
				ValidateExisting:  []rule.CoveredResource{{ResourceRule: rule.ResourceRule{Operations: []usher.Operation{usher.Update}, Groups: []string{""}, Versions: []string{"v1"}, Resources: []string{"namespaces"}, Scope: rule.Cluster}}},
			},
			"",
		},
		{
			"everything.yaml",
			webhookconfig.Options{Namespace: "usher-system", Service: "usher", Port: 8443, Compat: true},
			rule.Coverage{
				Mutate: []rule.Covered{covered("", "", usher.Connect, usher.Create, usher.Delete, usher.Update)},
				Validate: []rule.Covered{
					inNamespaces(covered("", "", usher.Create, usher.Delete, usher.Update), "shop"),
					covered("v1", "Pod"), covered("policy/v1", "Eviction"), covered("autoscaling/v1", "Scale"), covered("v1", "PodExecOptions"),
				},
			},
			"CA",
		},
	}
	for _, test := range tests {
		t.Run(test.file, func(t *testing.T) {
			t.Parallel()
			m, v, err := webhookconfig.New(nil, mapper(), test.options).Objects(test.coverage, []byte(test.caBundle))
			if err != nil {
				t.Fatal(err)
			}
			got := bytes.Join([][]byte{marshal(t, m), marshal(t, v)}, []byte("---\n"))
			file := filepath.Join("testdata", test.file)
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func marshal(t *testing.T, object any) []byte {
	t.Helper()
	text, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

const (
	guardRule  = "CREATE,UPDATE policy.kcloudlabs.io/v1alpha1 clusteroverridepolicies,clustervalidatepolicies,overridepolicies *"
	accessRule = "CREATE,UPDATE usher.dev/v1alpha1 authorizationpolicies,clusterauthorizationpolicies,clusterobjectpolicies,clusterpolicycandidates,clusterpolicyexemptions,objectpolicies,policycandidates,policyexemptions *"
)

func TestRulesAreNarrow(t *testing.T) {
	t.Parallel()
	all := []usher.Operation{usher.Connect, usher.Create, usher.Delete, usher.Update}
	tests := []struct {
		reason  string
		covered []rule.Covered
		want    []string
	}{
		{"nothing", nil, nil},
		{
			"subresources only with the operation that they have", []rule.Covered{covered("v1", "Pod", all...)},
			[]string{"CREATE,DELETE,UPDATE /v1 pods *", "UPDATE /v1 pods/ephemeralcontainers,pods/resize *"},
		},
		{"new pods only", []rule.Covered{covered("v1", "Pod", usher.Create)}, []string{"CREATE /v1 pods *"}},
		{"no operations mean all", []rule.Covered{covered("v1", "Secret")}, []string{"CREATE,DELETE,UPDATE /v1 secrets *"}},
		{
			"kinds are joined within a group and version, if their operations are the same", []rule.Covered{
				covered("v1", "Secret", usher.Create), covered("v1", "ConfigMap", usher.Create), covered("v1", "Namespace", usher.Delete),
				covered("batch/v1", "Job", usher.Create), covered("apps/v1", "Deployment", usher.Create),
			},
			[]string{
				"CREATE /v1 configmaps,secrets *", "DELETE /v1 namespaces *", "CREATE apps/v1 deployments *", "CREATE batch/v1 jobs *",
			},
		},
		{
			"CONNECT to a kind that has none", []rule.Covered{covered("v1", "Secret", usher.Connect), covered("v1", "Pod", usher.Connect)},
			nil,
		},
		{
			"ways into pods", []rule.Covered{
				covered("v1", "PodExecOptions"), covered("v1", "PodAttachOptions"), covered("v1", "PodPortForwardOptions"), covered("v1", "PodProxyOptions"),
				covered("v1", "ServiceProxyOptions"), covered("v1", "NodeProxyOptions", usher.Connect),
			},
			[]string{"CONNECT /v1 nodes/proxy,pods/attach,pods/exec,pods/portforward,pods/proxy,services/proxy *"},
		},
		{
			"kinds of subresources", []rule.Covered{
				covered("policy/v1", "Eviction", all...), covered("autoscaling/v1", "Scale"), covered("v1", "Binding"), covered("authentication.k8s.io/v1", "TokenRequest"),
			},
			[]string{"CREATE /v1 bindings,pods/binding,pods/eviction,serviceaccounts/token *", "UPDATE */* */scale *"},
		},
		{
			"everything takes the rest in, but for what it does not have", []rule.Covered{
				covered("", "", usher.Create, usher.Update), covered("v1", "Secret", usher.Create, usher.Delete), covered("policy/v1", "Eviction"),
			},
			[]string{
				"CREATE /v1 pods/eviction *", "DELETE /v1 secrets *", "UPDATE /v1 pods/ephemeralcontainers,pods/resize *",
				"CREATE,UPDATE */* * *",
			},
		},
		{"CONNECT to everything", []rule.Covered{covered("", "", usher.Connect)}, []string{"CONNECT */* */* *"}},
		{
			"CONNECT in a namespace", []rule.Covered{inNamespaces(covered("", "", usher.Connect, usher.Update), "shop")},
			[]string{
				"UPDATE /v1 pods/ephemeralcontainers,pods/resize *", "CONNECT */* */* Namespaced", "UPDATE */* * Namespaced",
			},
		},
		{
			"everything in a namespace is not cluster-scoped", []rule.Covered{inNamespaces(covered("", "", usher.Delete), "shop"), covered("v1", "Secret", usher.Delete)},
			[]string{"DELETE /v1 secrets *", "DELETE */* * Namespaced"},
		},
		{
			"what is cluster-scoped is in no namespace", []rule.Covered{inNamespaces(covered("v1", "Namespace"), "shop")},
			nil,
		},
		{
			"policies that select policies get them at the entry for policies", []rule.Covered{covered("policy.kcloudlabs.io/v1alpha1", "OverridePolicy", usher.Delete, usher.Create)},
			nil,
		},
		{
			"what is never sent", []rule.Covered{
				covered("v1", "Node"), covered("v1", "Event"), covered("coordination.k8s.io/v1", "Lease"), covered("certificates.k8s.io/v1", "CertificateSigningRequest"),
				covered("authentication.k8s.io/v1", "TokenReview"), covered("authorization.k8s.io/v1", "SubjectAccessReview"),
				covered("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
			},
			nil,
		},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			e := webhookconfig.New(nil, mapper(), webhookconfig.Options{Namespace: "usher-system", Service: "usher", Log: silent})
			m, v, err := e.Objects(rule.Coverage{Mutate: test.covered, Validate: test.covered}, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := rulesOf(m, v)
			if diff := cmp.Diff(test.want, got["mutate.usher.dev"]); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(got["mutate.usher.dev"], got["validate.usher.dev"]); diff != "" {
				t.Errorf("the phases differ, -mutate +validate:\n%s", diff)
			}
			for _, name := range []string{"mutate-policies.usher.dev", "validate-policies.usher.dev"} {
				if diff := cmp.Diff([]string{guardRule, accessRule}, got[name]); diff != "" {
					t.Errorf("policies are always sent, -want +got:\n%s", diff)
				}
			}
		})
	}
}

// rulesOf returns the rules of all entries by their names.
func rulesOf(m *admissionv1.MutatingWebhookConfiguration, v *admissionv1.ValidatingWebhookConfiguration) map[string][]string {
	all := map[string][]string{}
	for i := range m.Webhooks {
		all[m.Webhooks[i].Name] = lines(m.Webhooks[i].Rules)
	}
	for i := range v.Webhooks {
		all[v.Webhooks[i].Name] = lines(v.Webhooks[i].Rules)
	}
	return all
}

func lines(rules []admissionv1.RuleWithOperations) []string {
	var text []string
	for _, r := range rules {
		var operations []string
		for _, operation := range r.Operations {
			operations = append(operations, string(operation))
		}
		text = append(text, fmt.Sprintf("%s %s/%s %s %s", strings.Join(operations, ","), strings.Join(r.APIGroups, ","),
			strings.Join(r.APIVersions, ","), strings.Join(r.Resources, ","), *r.Scope))
	}
	return text
}

func TestObjectsAreTheSameForTheSameCoverage(t *testing.T) {
	t.Parallel()
	e := webhookconfig.New(nil, mapper(), webhookconfig.Options{Namespace: "usher-system", Service: "usher"})
	all := []rule.Covered{
		covered("v1", "Pod", usher.Create, usher.Update), covered("v1", "Secret", usher.Update, usher.Create), covered("v1", "ConfigMap", usher.Create),
		covered("apps/v1", "Deployment"), covered("batch/v1", "Job"), covered("policy/v1", "Eviction"), covered("autoscaling/v1", "Scale"),
	}
	var first []byte
	for range 50 {
		m, v, err := e.Objects(rule.Coverage{Mutate: all, Validate: all}, []byte("CA"))
		if err != nil {
			t.Fatal(err)
		}
		got := append(marshal(t, m), marshal(t, v)...)
		if first == nil {
			first = got
		}
		if !bytes.Equal(first, got) {
			t.Fatalf("-first +later:\n%s", cmp.Diff(string(first), string(got)))
		}
		slices.Reverse(all)
		for i := range all {
			slices.Reverse(all[i].Operations)
		}
	}
}

func TestNamespaceCondition(t *testing.T) {
	t.Parallel()
	many := make([]string, 101)
	for i := range many {
		many[i] = fmt.Sprint("n", i)
	}
	const head, whole = "has(request.namespace) && request.namespace in ", "!(has(request.subResource) && request.subResource != '')"
	pods := covered("v1", "Pod")
	tests := []struct {
		reason  string
		covered []rule.Covered
		want    string
	}{
		{"nothing but policies", nil, ""},
		{"all namespaces", []rule.Covered{pods}, ""},
		{"all of one kind everywhere", []rule.Covered{inNamespaces(pods, "shop"), pods}, ""},
		{"several kinds in the same", []rule.Covered{inNamespaces(pods, "bank", "shop"), inNamespaces(covered("v1", "Secret"), "bank", "shop")}, head + "['bank', 'shop']"},
		{
			"one kind everywhere", []rule.Covered{inNamespaces(pods, "shop", "x'] || true || ['"), covered("apps/v1", "Deployment", usher.Create)},
			"((request.resource.group == 'apps' && request.operation in ['CREATE'] && ((request.resource.resource == 'deployments' && " + whole + ")))) || " +
				"(((request.resource.group == '' && request.operation in ['CREATE', 'DELETE', 'UPDATE'] && ((request.resource.resource == 'pods' && " + whole + "))) || " +
				"(request.resource.group == '' && request.operation in ['UPDATE'] && ((request.resource.resource == 'pods' && has(request.subResource) && request.subResource == 'ephemeralcontainers') || " +
				"(request.resource.resource == 'pods' && has(request.subResource) && request.subResource == 'resize')))) && (" + head + "['shop']))",
		},
		{"not a namespace", []rule.Covered{inNamespaces(pods, "shop", "x'] || true || ['")}, head + "['shop']"},
		{"too many", []rule.Covered{inNamespaces(pods, many...)}, "has(request.namespace) && !(request.namespace in ['kube-system'])"},
	}
	for _, test := range tests {
		m, _, err := webhookconfig.New(nil, mapper(), webhookconfig.Options{}).Objects(rule.Coverage{Mutate: test.covered}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, c := range m.Webhooks[0].MatchConditions {
			if c.Name == "namespaces-with-policies" {
				got = c.Expression
			}
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", test.reason, got, test.want)
		}
	}
}

func TestUnknownKindsDoNotStopOthers(t *testing.T) {
	t.Parallel()
	e := webhookconfig.New(nil, mapper(), webhookconfig.Options{Service: "usher", Namespace: "usher-system"})
	widgets := []rule.Covered{covered("example.com/v1", "Widget", usher.Create), covered("v1", "Secret", usher.Create)}
	m, _, err := e.Objects(rule.Coverage{Mutate: widgets, Validate: widgets}, nil)
	var unknown *webhookconfig.IncompleteError
	if !errors.As(err, &unknown) || !slices.Equal(unknown.Kinds, []string{"example.com/v1 Widget"}) {
		t.Fatalf("got %v", err)
	}
	if want := "find resources: the cluster does not have the kinds example.com/v1 Widget"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	want := []string{"CREATE /v1 secrets *", "CREATE example.com/v1 widgets *"}
	if diff := cmp.Diff(want, lines(m.Webhooks[0].Rules)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A brokenMapper cannot ask the API server.
type brokenMapper struct{ meta.RESTMapper }

func (brokenMapper) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return nil, errors.New("connection refused")
}

func TestObjectsNeedAnAnswer(t *testing.T) {
	t.Parallel()
	_, _, err := webhookconfig.New(nil, brokenMapper{}, webhookconfig.Options{}).Objects(rule.Coverage{Validate: []rule.Covered{covered("v1", "Secret")}}, nil)
	if want := "find resource of v1 Secret: connection refused"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func BenchmarkObjects(b *testing.B) {
	e := webhookconfig.New(nil, mapper(), webhookconfig.Options{Namespace: "usher-system", Service: "usher"})
	all := []rule.Covered{covered("v1", "Pod"), covered("v1", "Secret"), covered("apps/v1", "Deployment"), covered("batch/v1", "Job")}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := e.Objects(rule.Coverage{Mutate: all, Validate: all}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
