package webhookconfig_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/generic"
	"k8s.io/apiserver/pkg/authentication/user"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// A kind is served in some versions, which an API server takes for the same objects.
type kind struct {
	name, plural string
	scope        meta.RESTScope
	versions     []string
}

// kinds are built into Kubernetes or not, and have one version, several, or several groups.
var kinds = []kind{
	{"Secret", "secrets", meta.RESTScopeNamespace, []string{"v1"}},
	{"HorizontalPodAutoscaler", "horizontalpodautoscalers", meta.RESTScopeNamespace, []string{"autoscaling/v1", "autoscaling/v2"}},
	{"Ingress", "ingresses", meta.RESTScopeNamespace, []string{"networking.k8s.io/v1", "extensions/v1beta1"}},
	{"Widget", "widgets", meta.RESTScopeRoot, []string{"example.com/v1alpha1", "example.com/v1", "example.com/v2"}},
	{"Gadget", "gadgets", meta.RESTScopeNamespace, []string{"one.example.com/v1", "two.example.com/v1"}},
}

// A cluster is a model of what an API server serves.
type cluster struct {
	mapper      *meta.DefaultRESTMapper
	equivalents runtime.EquivalentResourceRegistry
	served      map[string][]string
}

// someCluster serves some versions of each kind, and possibly none.
func someCluster(random *rand.Rand) *cluster {
	c := &cluster{mapper: meta.NewDefaultRESTMapper(nil), served: map[string][]string{}}
	c.equivalents = runtime.NewEquivalentResourceRegistryWithIdentity(func(r schema.GroupResource) string { return r.Resource })
	for _, k := range kinds {
		for _, apiVersion := range k.versions {
			if random.IntN(3) == 0 {
				continue
			}
			gv, _ := schema.ParseGroupVersion(apiVersion)
			c.served[k.name] = append(c.served[k.name], apiVersion)
			c.mapper.AddSpecific(gv.WithKind(k.name), gv.WithResource(k.plural), gv.WithResource(strings.ToLower(k.name)), k.scope)
			c.equivalents.RegisterKindFor(gv.WithResource(k.plural), "", gv.WithKind(k.name))
			c.equivalents.RegisterKindFor(gv.WithResource(k.plural), "status", gv.WithKind(k.name))
		}
	}
	return c
}

// someRules are those of policies that name versions, kinds and operations at random.
func someRules(random *rand.Rand) []rule.Rule {
	rules := make([]rule.Rule, 1+random.IntN(6))
	for i := range rules {
		r := &rules[i]
		r.Policy = usher.PolicyRef{Kind: "ClusterValidatePolicy", Name: fmt.Sprint("p", i)}
		r.Phase = []usher.Phase{usher.Mutate, usher.Validate}[random.IntN(2)]
		for _, operation := range usher.Operations()[:3] {
			if random.IntN(2) == 0 {
				r.Match.Operations = append(r.Match.Operations, operation)
			}
		}
		for range random.IntN(4) {
			k := kinds[random.IntN(len(kinds))]
			r.Match.Selectors = append(r.Match.Selectors, rule.Selector{APIVersion: k.versions[random.IntN(len(k.versions))], Kind: k.name})
		}
		r.Steps = []rule.Step{{Name: "reading", Program: reading([]string{"spec", "metadata"}[random.IntN(2)])}}
	}
	return rules
}

// A reading is a program that reads one field.
type reading string

func (reading) Run(context.Context, *rule.Input) (rule.Outcome, error) { return rule.Outcome{}, nil }

func (p reading) String() string { return "reads " + string(p) }

func (p reading) ReadPaths() (object, old *usher.Paths) {
	object = &usher.Paths{}
	object.Add(string(p))
	return object, nil
}

// sees returns in which versions a rule may see a request for a kind in a version; none if it
// is not to see it.
func (c *cluster) sees(r *rule.Rule, k *kind, apiVersion string, operation usher.Operation, status bool) []string {
	if len(r.Match.Operations) > 0 && !slices.Contains(r.Match.Operations, operation) ||
		r.Phase == usher.Mutate && operation == usher.Delete || status && r.Steps[0].Program != reading("metadata") {
		return nil
	}
	if len(r.Match.Selectors) == 0 {
		return []string{apiVersion}
	}
	var named []string
	for _, sel := range r.Match.Selectors {
		if sel.Kind == k.name && slices.Contains(c.served[k.name], sel.APIVersion) {
			named = append(named, sel.APIVersion)
		}
	}
	if slices.Contains(named, apiVersion) {
		return []string{apiVersion}
	}
	return named
}

// TestEveryRuleSeesEachRequestOnce has the code of the API server choose the webhooks for
// random requests, registered for random policies in clusters that serve random versions. Each
// rule has to see each request that it is for exactly once, in a version that it names, and
// no webhook is called for nothing.
func TestEveryRuleSeesEachRequestOnce(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(12, 34))
	plugin := genuine(t)
	for round := range 400 {
		c, all := someCluster(random), someRules(random)
		m, v, err := webhookconfig.New(nil, c.mapper, webhookconfig.Options{Service: "usher", Log: silent}).Objects(rule.Cover(all), nil)
		if err != nil && !strings.HasPrefix(err.Error(), "find resources: the cluster does not have the kinds ") {
			t.Fatal(err)
		}
		onlyVersions(m, v)
		hooks := accessors(m, v)
		for _, k := range kinds {
			for _, apiVersion := range c.served[k.name] {
				for _, operation := range usher.Operations()[:3] {
					checkRequest(t, plugin, c, hooks, all, &k, apiVersion, operation, "")
				}
				checkRequest(t, plugin, c, hooks, all, &k, apiVersion, usher.Update, "status")
			}
		}
		if t.Failed() {
			for i := range all {
				t.Log(all[i].String())
			}
			t.Fatalf("round %d: served %v\nregistered %v", round, c.served, rulesOf(m, v))
		}
	}
}

// onlyVersions leaves the conditions that have to do with versions and metadata: to compile
// all of them would take minutes.
func onlyVersions(m *admissionv1.MutatingWebhookConfiguration, v *admissionv1.ValidatingWebhookConfiguration) {
	other := func(c admissionv1.MatchCondition) bool {
		return c.Name != "converted" && c.Name != "not-converted" && c.Name != "changes-metadata"
	}
	for i := range m.Webhooks {
		m.Webhooks[i].MatchConditions = slices.DeleteFunc(m.Webhooks[i].MatchConditions, other)
	}
	for i := range v.Webhooks {
		v.Webhooks[i].MatchConditions = slices.DeleteFunc(v.Webhooks[i].MatchConditions, other)
	}
}

// genuine is what decides in an API server which webhooks are called.
func genuine(t *testing.T) *generic.Webhook {
	t.Helper()
	plugin, err := generic.NewWebhook(admission.NewHandler(), nil, nil, func(*webhookutil.ClientManager) generic.Dispatcher { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return plugin
}

func checkRequest(t *testing.T, plugin *generic.Webhook, c *cluster, hooks map[usher.Phase][]webhook.WebhookAccessor,
	all []rule.Rule, k *kind, apiVersion string, operation usher.Operation, subresource string,
) {
	t.Helper()
	gv, _ := schema.ParseGroupVersion(apiVersion)
	w := &writing{kind: gv.WithKind(k.name), operation: operation}
	namespace := "shop"
	if k.scope == meta.RESTScopeRoot {
		namespace = ""
	}
	attributes := admission.NewAttributesRecord(w.object(), w.old(), w.kind, namespace, "a", gv.WithResource(k.plural), subresource,
		admission.Operation(operation), nil, false, &user.DefaultInfo{Name: "jane"})
	request := fmt.Sprintf("%s %s %s %s", operation, apiVersion, k.name, subresource)
	for phase, webhooks := range hooks {
		seen := map[string][]string{}
		for _, hook := range webhooks {
			call, err := plugin.ShouldCallHook(t.Context(), hook, attributes, c, w)
			if err != nil {
				t.Fatalf("%s: %s: %v", request, hook.GetName(), err)
			}
			if call == nil {
				continue
			}
			at, ok := webhookconfig.EntryOf(hook.GetName())
			if !ok {
				t.Fatalf("%s is no entry", hook.GetName())
			}
			target := rule.Target{Operation: operation, APIVersion: call.Kind.GroupVersion().String(), Kind: call.Kind.Kind, Name: "a", Namespace: namespace}
			needed := false
			for _, r := range at.Of(all) {
				if r.Phase == phase && r.Match.Matches(&target) {
					seen[r.Policy.Name] = append(seen[r.Policy.Name], target.APIVersion)
					needed = true
				}
			}
			if !needed {
				t.Errorf("%s: %s is called for nothing", request, hook.GetName())
			}
		}
		for i := range all {
			if all[i].Phase != phase {
				continue
			}
			got, want := seen[all[i].Policy.Name], c.sees(&all[i], k, apiVersion, operation, subresource != "")
			if len(want) == 0 && len(got) != 0 || len(want) > 0 && (len(got) != 1 || !slices.Contains(want, got[0])) {
				t.Errorf("%s: %s sees it in %q, want one of %q", request, all[i].String(), got, want)
			}
		}
		if len(c.served[k.name]) == 1 && len(webhooksOf(seen)) > 1 {
			t.Errorf("%s: it is sent in %q", request, webhooksOf(seen))
		}
	}
}

// webhooksOf are the versions in which policies saw a request.
func webhooksOf(seen map[string][]string) []string {
	var all []string
	for _, versions := range seen {
		all = append(all, versions...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// A writing is what a request writes.
type writing struct {
	kind      schema.GroupVersionKind
	operation usher.Operation
}

func (w *writing) object() runtime.Object {
	if w.operation == usher.Delete {
		return nil
	}
	return objectOf(w.kind, "new")
}

func (w *writing) old() runtime.Object {
	if w.operation == usher.Create {
		return nil
	}
	return objectOf(w.kind, "old")
}

func objectOf(kind schema.GroupVersionKind, label string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	o.SetName("a")
	o.SetLabels(map[string]string{"label": label})
	return o
}

// VersionedAttribute converts the objects.
func (w *writing) VersionedAttribute(kind schema.GroupVersionKind) (*admission.VersionedAttributes, error) {
	converted := &writing{kind: kind, operation: w.operation}
	attributes := admission.NewAttributesRecord(w.object(), w.old(), w.kind, "", "a", w.kind.GroupVersion().WithResource("x"), "",
		admission.Operation(w.operation), nil, false, &user.DefaultInfo{Name: "jane"})
	return &admission.VersionedAttributes{
		Attributes: attributes, VersionedKind: kind, VersionedObject: converted.object(), VersionedOldObject: converted.old(),
	}, nil
}

// The other parts of what an API server knows of a resource are not asked for.
func (c *cluster) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper {
	return c.equivalents
}

func (c *cluster) GetObjectCreater() runtime.ObjectCreater { return nil }

func (c *cluster) GetObjectTyper() runtime.ObjectTyper { return nil }

func (c *cluster) GetObjectDefaulter() runtime.ObjectDefaulter { return nil }

func (c *cluster) GetObjectConvertor() runtime.ObjectConvertor { return nil }
