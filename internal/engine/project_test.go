package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/index"
	"github.com/usher-dev/usher/internal/podtemplate"
	"github.com/usher-dev/usher/internal/rule"
)

// forPods makes a rule one for the pods of workloads.
func forPods(r rule.Rule) rule.Rule {
	r.Phase = usher.Validate
	r.Match = rule.Match{Resources: []rule.ResourceMatch{rule.OfWorkloads(nil)}}
	r.Pod = &rule.Pod{Match: podsCreated()}
	return r
}

func podsCreated() rule.Match {
	return rule.Match{Resources: []rule.ResourceMatch{{Rules: []rule.ResourceRule{{
		Operations: []usher.Operation{usher.Create}, Groups: []string{""}, Versions: []string{"v1"}, Resources: []string{"pods"},
	}}}}}
}

// changing makes a rule one that changes pods.
func changing(r rule.Rule) rule.Rule {
	r.Phase = usher.Mutate
	r.Match.Selectors = []rule.Selector{{APIVersion: "v1", Kind: "Pod"}}
	return r
}

func engineOf(facts fact.Resolver, rules ...rule.Rule) *engine.Engine {
	return engine.New(index.New(rules), facts, engine.Options{})
}

const template = `{"metadata":{"labels":{"app":"web"}},"spec":{"hostNetwork":true,"containers":[{"name":"c"}]}}`

// workloadRequest creates an object of a kind, whose JSON has %s in place of the template.
func workloadRequest(t *testing.T, kind, object string) *usher.Request {
	t.Helper()
	for _, w := range podtemplate.Workloads() {
		if w.Kind != kind {
			continue
		}
		r := &usher.Request{Phase: usher.Validate, Operation: usher.Create, Name: "web", Namespace: "shop", UID: "u-1"}
		r.Kind = schema.GroupVersionKind{Group: w.Group, Version: "v1", Kind: kind}
		r.Resource = schema.GroupVersionResource{Group: w.Group, Version: "v1", Resource: w.Resource}
		r.User = usher.User{Name: "ann", Groups: []string{"devs"}}
		r.Object = usher.RawObject([]byte(object))
		return r
	}
	t.Fatalf("%s is no workload", kind)
	return nil
}

// deployment is a Deployment with a template.
func deployment(template string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":2,"template":` + template + `}}`
}

// show warns of everything that a program sees of the pod.
func show(_ context.Context, in *rule.Input) (rule.Outcome, error) {
	r := in.Request
	object, err := r.Object.Tree()
	if err != nil || !cmp.Equal(object, in.Object) {
		return rule.Outcome{}, fmt.Errorf("the object of the request is %v: %w", object, err)
	}
	shown, err := json.Marshal(in.Object)
	if err != nil {
		return rule.Outcome{}, err
	}
	return rule.Outcome{Warnings: []string{
		string(shown),
		fmt.Sprint(r.Phase, " ", r.Operation, " ", r.Kind, " ", r.Resource, " ", r.Subresource, " ", r.Namespace, "/", r.Name, " by ", r.User.Name, " ", r.UID),
		in.Workload.String() + ": " + in.Workload.FieldPath("spec.hostNetwork"),
	}}, nil
}

func TestPodsOfWorkloads(t *testing.T) {
	t.Parallel()
	const (
		asked = `validate CREATE /v1, Kind=Pod /v1, Resource=pods  shop/ by ann u-1`
		meta  = `"metadata":{"generateName":"web-","labels":{"app":"web"},"namespace":"shop"`
		spec  = `"spec":{"containers":[{"name":"c"}],"hostNetwork":true}}`
	)
	owned := func(apiVersion, kind string) string {
		return `{"apiVersion":"v1","kind":"Pod",` + meta + `,"ownerReferences":[{"apiVersion":"` + apiVersion + `","blockOwnerDeletion":true,"controller":true,"kind":"` + kind +
			`","name":"web","uid":""}]},` + spec
	}
	for _, test := range []struct{ kind, object, pod, field string }{
		{"Deployment", `"apiVersion":"apps/v1","spec":{"template":%s}`, owned("apps/v1", "ReplicaSet"), "spec.template.spec.hostNetwork"},
		{"StatefulSet", `"apiVersion":"apps/v1","spec":{"template":%s}`, owned("apps/v1", "StatefulSet"), "spec.template.spec.hostNetwork"},
		{"DaemonSet", `"apiVersion":"apps/v1","spec":{"template":%s}`, owned("apps/v1", "DaemonSet"), "spec.template.spec.hostNetwork"},
		{"ReplicaSet", `"apiVersion":"apps/v1","spec":{"template":%s}`, owned("apps/v1", "ReplicaSet"), "spec.template.spec.hostNetwork"},
		{"ReplicationController", `"apiVersion":"v1","spec":{"template":%s}`, owned("v1", "ReplicationController"), "spec.template.spec.hostNetwork"},
		{"Job", `"apiVersion":"batch/v1","spec":{"template":%s}`, owned("batch/v1", "Job"), "spec.template.spec.hostNetwork"},
		{"CronJob", `"apiVersion":"batch/v1","spec":{"jobTemplate":{"spec":{"template":%s}}}`, owned("batch/v1", "Job"), "spec.jobTemplate.spec.template.spec.hostNetwork"},
		{"PodTemplate", `"apiVersion":"v1","template":%s`, `{"apiVersion":"v1","kind":"Pod",` + meta + `},` + spec, "template.spec.hostNetwork"},
	} {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			object := `{"kind":"` + test.kind + `","metadata":{"name":"web","namespace":"shop","labels":{"of":"workload"},"uid":"w"},` + fmt.Sprintf(test.object, template) + `}`
			r := workloadRequest(t, test.kind, object)
			got := decide(t, engineOf(nil, forPods(one("see", program(show)))), r)
			want := []string{test.pod, asked, test.kind + " shop/web: " + test.field}
			if diff := cmp.Diff(want, got.Warnings); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if len(got.Findings) != 1 || got.Findings[0].PodOf != test.kind+" shop/web" || got.Verdict != usher.Allow {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestWhichPodsAreJudged(t *testing.T) {
	t.Parallel()
	owned := strings.Replace(deployment(template), `"metadata":{`, `"metadata":{"ownerReferences":[{"kind":"App","controller":true}],`, 1)
	other := deployment(strings.Replace(template, "true", "false", 1))
	with := func(object, old string, change func(*usher.Request)) *usher.Request {
		r := workloadRequest(t, "Deployment", object)
		if old != "" {
			r.Operation, r.OldObject = usher.Update, usher.RawObject([]byte(old))
		}
		if change != nil {
			change(r)
		}
		return r
	}
	sub := func(name string) func(*usher.Request) {
		return func(r *usher.Request) { r.Subresource = name }
	}
	// apart reads one path of pods.
	apart := forPods(one("see", deny("no")))
	apart.Steps[0].Program = picky{deny("no"), []string{"spec.dnsPolicy"}, nil}
	for _, test := range []struct {
		reason  string
		request *usher.Request
		want    []string
	}{
		{"created", with(deployment(template), "", nil), []string{"see rejected no"}},
		{"owned by a controller", with(owned, "", nil), []string{"see skipped it is owned by a controller, whose own pod template is judged"}},
		{"made in kube-system, where it is not sent", with(deployment(template), "", func(r *usher.Request) { r.Namespace = "kube-system" }), []string{"see rejected no"}},
		{"without a template", with(`{"metadata":{"name":"web"}}`, "", nil), []string{"see skipped it has no pod template"}},
		{"updated with another template", with(other, deployment(template), nil), []string{"see rejected no"}},
		{"updated elsewhere", with(deployment(template), strings.Replace(deployment(template), `"replicas":2`, `"replicas":9`, 1), nil), []string{"see skipped the pod template has not changed"}},
		{"updated, but the old object is not known", with(deployment(template), deployment(template), func(r *usher.Request) { r.OldObject = nil }), []string{"see rejected no"}},
		{"scaled", with(`{"kind":"Scale","spec":{"replicas":3}}`, `{"kind":"Scale"}`, sub("scale")), nil},
		{"its status", with(other, deployment(template), sub("status")), nil},
		{"deleted", with("", "", func(r *usher.Request) {
			r.Operation, r.OldObject = usher.Delete, usher.RawObject([]byte(deployment(template)))
		}), nil},
		{"another kind with the name of a workload", with(deployment(template), "", func(r *usher.Request) { r.Kind.Group = "example.com" }), []string{"see skipped it makes no pods"}},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			for _, r := range []rule.Rule{forPods(one("see", deny("no"))), apart} {
				got := decide(t, engineOf(nil, r), test.request)
				equalFindings(t, test.want, got.Findings)
				if denied := len(test.want) > 0 && strings.Contains(test.want[0], "rejected"); denied != (got.Verdict == usher.Deny) {
					t.Errorf("the verdict is %s", got.Verdict)
				}
			}
		})
	}
}

func TestWarningsOfPodsThatAreNotSent(t *testing.T) {
	t.Parallel()
	warns := forPods(one("see", warn("its pods would be denied")))
	warns.Pod.Warns = true
	for namespace, want := range map[string]string{
		"shop":        "see passed",
		"kube-system": "see skipped API servers do not send the requests in which controllers of kube-system create pods there: its pods are not denied",
	} {
		r := workloadRequest(t, "DaemonSet", strings.Replace(deployment(template), `"namespace":"shop"`, `"namespace":"`+namespace+`"`, 1))
		r.Namespace = namespace
		got := decide(t, engineOf(nil, warns), r)
		equalFindings(t, []string{want}, got.Findings)
		if warned := len(got.Warnings) > 0; warned != (namespace == "shop") {
			t.Errorf("%s: warnings are %q", namespace, got.Warnings)
		}
	}
}

func TestPodsMatchAsPodsDo(t *testing.T) {
	t.Parallel()
	of := func(change func(*rule.ResourceRule)) rule.Rule {
		r := forPods(one("see", deny("no")))
		change(&r.Pod.Match.Resources[0].Rules[0])
		return r
	}
	labelled := forPods(one("see", deny("no")))
	labelled.Pod.Match = rule.Match{Selectors: []rule.Selector{{APIVersion: "v1", Kind: "Pod", Fields: rule.Fields{{Path: []string{"spec", "hostNetwork"}, Op: rule.In, Values: []string{"false"}}}}}}
	excluded := forPods(one("see", deny("no")))
	excluded.Match.Resources[0] = rule.OfWorkloads([]rule.ResourceRule{{Groups: []string{"apps"}, Versions: []string{"*"}, Resources: []string{"deployments"}}})
	for _, test := range []struct {
		reason string
		rule   rule.Rule
		want   []string
	}{
		{"pods are created", of(func(r *rule.ResourceRule) { r.Operations = []usher.Operation{usher.Update} }), []string{"see skipped its pod: none of the resourceRules is for this request"}},
		{"they have no name yet", of(func(r *rule.ResourceRule) { r.Names = []string{"web"} }), []string{"see skipped its pod: none of the resourceRules is for this request"}},
		{"fields are those of the pod", labelled, []string{`see skipped its pod: field does not match "spec.hostNetwork in (false)"`}},
		{"workloads that are left out", excluded, nil},
	} {
		got := decide(t, engineOf(nil, test.rule), workloadRequest(t, "Deployment", deployment(template)))
		if diff := cmp.Diff(test.want, found(got.Findings)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
	}
}

func TestMutationsAreTriedOnPods(t *testing.T) {
	t.Parallel()
	denyHost := forPods(one("host", program(func(_ context.Context, in *rule.Input) (rule.Outcome, error) {
		spec, _ := in.Object["spec"].(map[string]any)
		if spec["hostNetwork"] != true {
			return rule.Outcome{}, nil
		}
		return rule.Outcome{Verdict: usher.Deny, Message: strings.TrimSpace("host network " + in.Workload.Unchanged)}, nil
	})))
	off := usher.PatchOp{Op: "replace", Path: "/spec/hostNetwork", Value: false}
	on := usher.PatchOp{Op: "replace", Path: "/spec/hostNetwork", Value: true}
	warning := changing(one("warn", warn("not for users")))
	ignored := changing(one("broken", patch(off), fail(errBroken)))
	ignored.FailurePolicy = usher.Ignore
	forOthers := changing(one("fix", patch(off)))
	forOthers.Match.Selectors[0].Namespace = "other"
	for _, test := range []struct {
		reason  string
		rules   []rule.Rule
		message string
	}{
		{"nothing changes the pod", nil, "host network"},
		{"a rule does", []rule.Rule{changing(one("fix", patch(off)))}, ""},
		{"in a later pass", []rule.Rule{warning, inPass(2, changing(one("fix", patch(off))))}, ""},
		{"the last one counts", []rule.Rule{inPass(2, changing(one("off", patch(off)))), inPass(3, changing(one("on", patch(on))))}, "host network"},
		{"for pods of other namespaces", []rule.Rule{forOthers}, "host network"},
		{"a failure that is ignored takes its own change back", []rule.Rule{ignored}, "host network"},
		{"a failure that is ignored leaves the changes of others", []rule.Rule{changing(one("fix", patch(off))), ignored}, ""},
		{
			"a failure that would reject the pod", []rule.Rule{changing(one("fix", patch(off))), changing(one("broken", fail(errBroken)))},
			"host network without the changes of policies, since one of them rejects it: fake: broken (P broken spec.rules[0])",
		},
		{
			"a rule that rejects the pod", []rule.Rule{changing(one("fix", patch(off))), changing(one("never", deny("never")))},
			"host network without the changes of policies, since one of them rejects it: never",
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			e := engineOf(nil, append(slices.Clone(test.rules), denyHost, at("spec.rules[1]", forPods(one("also", pass()))))...)
			r := workloadRequest(t, "Deployment", deployment(template))
			got := decide(t, e, r)
			if got.Message != test.message || (got.Verdict == usher.Deny) != (test.message != "") {
				t.Errorf("got %s: %s", got.Verdict, got.Message)
			}
			if len(got.Findings) != 2 || len(got.Warnings) > 0 || got.Audit["changed-by"] != "" || got.Audit["failed-by"] != "" || got.Patch != nil {
				t.Errorf("what the changes found is told: %+v", got)
			}
			if object, err := r.Object.Raw(); err != nil || string(object) != deployment(template) {
				t.Errorf("the workload is %s, %v", object, err)
			}
		})
	}
}

func TestFactsOfPods(t *testing.T) {
	t.Parallel()
	resolved := map[string]int{}
	resolver := fact.ResolverFunc(func(_ context.Context, ref fact.Ref) (any, error) {
		resolved[ref.String()]++
		return "told", nil
	})
	post := &fact.HTTP{Method: "POST", URL: "https://example.com"}
	knows := func(ref fact.Ref) program {
		return func(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
			out, err := ask(ref)(ctx, in)
			return rule.Outcome{Warnings: []string{out.Message}}, err
		}
	}
	workloads := one("workload", knows(configMap("a")), knows(post))
	workloads.Phase = usher.Validate
	e := engineOf(
		resolver, changing(one("change", knows(configMap("a")))), forPods(one("posting", knows(post))),
		forPods(one("pod", ask(configMap("a")))), workloads,
	)
	got := decide(t, e, workloadRequest(t, "Deployment", deployment(template)))
	equalFindings(t, []string{
		"posting failed fake: fact POST https://example.com: not requested for the pod that a workload would make: only GET and HEAD have no side effects",
		"pod rejected told", "workload passed",
	}, got.Findings)
	want := map[string]int{"POST https://example.com": 1, configMap("a").String(): 1}
	if diff := cmp.Diff(want, resolved); diff != "" {
		t.Errorf("what was resolved: -want +got:\n%s", diff)
	}
}

func TestPodsWithSecretsAreConfidential(t *testing.T) {
	t.Parallel()
	secret := &fact.Object{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "s"}
	resolver := fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) { return "hidden", nil })
	reveal := program(func(_ context.Context, in *rule.Input) (rule.Outcome, error) {
		value, err := in.Facts.Value(secret)
		if err != nil {
			return rule.Outcome{}, err
		}
		return rule.Outcome{Patch: usher.Patch{add("/spec/secret", value)}}, nil
	})
	tell := forPods(one("tell", program(func(_ context.Context, in *rule.Input) (rule.Outcome, error) {
		return rule.Outcome{Verdict: usher.Deny, Message: fmt.Sprint(in.Object["spec"].(map[string]any)["secret"])}, nil
	})))
	for _, test := range []struct {
		reason string
		rules  []rule.Rule
		want   bool
	}{
		{"a change that no credentials were read for", []rule.Rule{changing(one("fix", patch(add("/spec/secret", "open")))), tell}, false},
		{"a change with credentials", []rule.Rule{changing(one("fix", reveal)), tell}, true},
		{"a rejection after credentials were read", []rule.Rule{changing(one("fix", ask(secret))), tell}, true},
	} {
		got := decide(t, engineOf(resolver, test.rules...), workloadRequest(t, "Deployment", deployment(template)))
		if len(got.Findings) != 1 || got.Findings[0].Confidential != test.want {
			t.Errorf("%s: %+v", test.reason, got.Findings)
		}
	}
}

func TestPodsWaitNoLongerThanTheRequest(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	stuck := changing(one("stuck", program(func(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
		cancel(errBroken)
		return wait(ctx, in)
	})))
	_, err := engineOf(nil, stuck, forPods(one("see", pass()))).Decide(ctx, workloadRequest(t, "Deployment", deployment(template)))
	if !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

// TestPodsAreDecodedInPart: programs see what they read of the pod, in the versions that are decoded.
func TestPodsAreDecodedInPart(t *testing.T) {
	t.Parallel()
	see := func(paths ...string) rule.Rule {
		r := forPods(one("see", nil))
		r.Steps[0].Program = picky{program(func(_ context.Context, in *rule.Input) (rule.Outcome, error) {
			shown, err := json.Marshal([]any{in.Object["spec"], in.OldObject})
			return rule.Outcome{Warnings: []string{string(shown)}}, err
		}), paths, paths}
		return r
	}
	const all = `{"containers":[{"name":"c"}],"hostNetwork":true}`
	for _, test := range []struct {
		reason string
		rules  []rule.Rule
		want   []string
	}{
		{"nothing is read", []rule.Rule{see()}, []string{`[null,null]`}},
		{"a path", []rule.Rule{see("spec.hostNetwork")}, []string{`[{"hostNetwork":true},null]`}},
		{"paths of two rules", []rule.Rule{see("spec.hostNetwork"), see("spec.containers")}, []string{`[` + all + `,null]`}},
		{"all of it", []rule.Rule{see("spec")}, []string{`[` + all + `,null]`}},
		{"rules that change pods may read anything", []rule.Rule{see("spec.hostNetwork"), changing(one("fix", pass()))}, []string{`[` + all + `,null]`}},
	} {
		got := decide(t, engineOf(nil, test.rules...), workloadRequest(t, "Deployment", deployment(template)))
		if diff := cmp.Diff(test.want, got.Warnings); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.reason, diff)
		}
	}
}

// TestExemptionsSeeAllOfPods: what an exemption reads of a pod is decoded, too.
func TestExemptionsSeeAllOfPods(t *testing.T) {
	t.Parallel()
	r := forPods(one("host", nil))
	r.Steps[0].Program = picky{deny("no"), []string{"spec.hostNetwork"}, nil}
	reads := picky{program(func(_ context.Context, in *rule.Input) (rule.Outcome, error) {
		spec, _ := in.Object["spec"].(map[string]any)
		if containers, _ := spec["containers"].([]any); len(containers) != 1 {
			return rule.Outcome{Skipped: fmt.Sprint("its containers are ", containers)}, nil
		}
		return rule.Outcome{}, nil
	}), []string{"spec.containers"}, nil}
	r.Exemptions = []rule.Exempting{{Exemption: &rule.Exemption{
		Ref: usher.PolicyRef{Kind: "X", Name: "x"}, Expires: time.Now().Add(time.Hour), Applies: []rule.Rule{{Steps: []rule.Step{{Program: reads}}}},
	}}}
	got := decide(t, engineOf(nil, r), workloadRequest(t, "Deployment", deployment(template)))
	if got.Verdict != usher.Allow || len(got.Findings) != 1 || got.Findings[0].Outcome != usher.Exempted {
		t.Errorf("got %+v", got)
	}
}
