package observe

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/served"
	"github.com/usher-dev/usher/internal/clients"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/probe"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/webhookconfig"
)

// registered finds out what is registered, and whether that works.
func (f *statusFlags) registered(ctx context.Context, set *clients.Set, r *statusReport) {
	validating, validatingErr := set.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, f.name, metav1.GetOptions{})
	mutating, mutatingErr := set.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, f.name, metav1.GetOptions{})
	var called []*admissionv1.WebhookClientConfig
	var refused []string
	from := rule.Namespaces{Only: true}
	add := func(name string, policy *admissionv1.FailurePolicyType, client *admissionv1.WebhookClientConfig, rules []admissionv1.RuleWithOperations, conditions []admissionv1.MatchCondition) {
		if entry, ok := webhookconfig.EntryOf(name); ok {
			open := policy != nil && *policy == admissionv1.Ignore
			r.Webhooks = append(r.Webhooks, webhookStatus{Name: entry.String(), FailsOpen: open})
			called = append(called, client)
			if entry.OfPolicies() {
				// The row of webhooks says it of these: what users cannot write is the news.
				return
			}
			from = from.Or(webhookconfig.SentFrom(conditions))
			for i := range rules {
				if !open {
					refused = append(refused, rules[i].Resources...)
				}
			}
		}
	}
	if mutatingErr == nil {
		for i := range mutating.Webhooks {
			add(mutating.Webhooks[i].Name, mutating.Webhooks[i].FailurePolicy, &mutating.Webhooks[i].ClientConfig, mutating.Webhooks[i].Rules, mutating.Webhooks[i].MatchConditions)
		}
	}
	if validatingErr == nil {
		for i := range validating.Webhooks {
			add(validating.Webhooks[i].Name, validating.Webhooks[i].FailurePolicy, &validating.Webhooks[i].ClientConfig, validating.Webhooks[i].Rules, validating.Webhooks[i].MatchConditions)
		}
	}
	if mutatingErr == nil && validatingErr == nil && len(from.Names) > 0 {
		r.Unsent = &unsentFrom{Namespaces: from.Names, AllBut: from.Only}
	}
	foreign := !slices.ContainsFunc(r.Webhooks, func(w webhookStatus) bool { return w.Name == "validate-policies" })
	calls := probe.Ask(ctx, probe.Options{Writer: set.Probe, Closed: set.ProbeClosed, Foreign: foreign && validatingErr == nil, Advice: "docs/install.md says what to look at: Whether API servers call Usher"})
	r.heard(&calls)
	if apierrors.IsNotFound(validatingErr) && apierrors.IsNotFound(mutatingErr) && f.isAbsent(r, &calls) {
		return
	}
	r.unregistered = slices.ContainsFunc([]error{mutatingErr, validatingErr}, apierrors.IsNotFound)
	// What repairs comes before the way out.
	r.lack(mutating, validating)
	r.trust(called)
	f.called(r, calls, refused)
	r.outside(ctx, called)
	for _, err := range []error{mutatingErr, validatingErr} {
		switch {
		case apierrors.IsNotFound(err):
			r.missing(err)
		case err != nil:
			r.unread = true
			r.unknownf("what is registered: %v", err)
		}
	}
}

// lack says which entries somebody has removed.
func (r *statusReport) lack(configurations ...metav1.Object) {
	var has []string
	for _, w := range r.Webhooks {
		has = append(has, w.Name)
	}
	for _, c := range configurations {
		for _, name := range webhookconfig.Lacking(c, has) {
			r.wrongf("the webhook %s is missing, and what it is for is not sent to Usher: somebody has removed it%s", name, r.soon())
		}
	}
}

// missing says that a webhook configuration is not there, as err does.
func (r *statusReport) missing(err error) {
	r.wrongf("not registered: %v%s", err, r.soon())
}

// isAbsent reports whether no replica runs where nothing is registered, which is one problem.
func (f *statusFlags) isAbsent(r *statusReport, calls *probe.Observation) bool {
	if calls.State == probe.Called || !r.noReplica || len(r.Replicas) > 0 {
		return false
	}
	r.absent, r.Calls = true, callsMissing
	r.wrongf("no replica runs in %s, and no webhook configurations %s exist", f.place(r), f.name)
	return true
}

// called says whether API servers call Usher, and what follows if nothing answers them: writes of the resources in
// refused are refused then.
func (f *statusFlags) called(r *statusReport, calls probe.Observation, refused []string) {
	effect, out := "", ""
	if len(refused) > 0 {
		r.Refused = usualFirst(refused)
		effect = ": writes of " + some(r.Refused) + " are refused (Fail)"
		out = "; the way out, until it answers again: kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration " + served.Quote(f.name) + " (docs/3am.md: Usher is down)"
	}
	r.refuses = len(refused) > 0 && (r.noReplica || calls.Hangs || strings.Contains(calls.Message, "failed calling webhook"))
	switch calls.State {
	case probe.Called:
		r.Calls = callsSeen
	case probe.NotCalled:
		r.Calls = callsMissing
	case probe.Unknown, probe.Awaited:
		r.Calls = callsUnknown
		r.unknownf("whether API servers call Usher: %s", calls.Message)
	}
	named := "in " + f.place(r)
	switch {
	case calls.Hangs:
		r.wrongf("Usher hangs%s: %s%s", strings.Replace(effect, ":", ", and", 1), calls.Message, out)
	case r.noReplica && r.Calls == callsSeen:
		r.wrongf("no replica of Usher is ready %s", named)
	case r.noReplica:
		r.wrongf("no replica answers%s; none is ready %s%s", effect, named, out)
	case r.Calls == callsMissing && r.unregistered:
		// Nobody asks what is not registered, which is a problem of its own.
	case r.Calls == callsMissing && effect != "":
		r.wrongf("API servers do not call Usher: %s; without an answer%s%s", calls.Message, strings.TrimPrefix(effect, ":"), out)
	case r.Calls == callsMissing:
		r.wrongf("API servers do not call Usher: %s", calls.Message)
	}
}

// usualFirst sorts resources: what most people miss first, then others by name.
func usualFirst(resources []string) []string {
	usual := []string{"*/*", "*", "pods", "deployments", "statefulsets", "daemonsets", "jobs", "cronjobs", "replicasets", "services", "configmaps", "secrets", "ingresses", "namespaces"}
	rank := func(resource string) int {
		if i := slices.Index(usual, resource); i >= 0 {
			return i
		}
		return len(usual)
	}
	all := slices.Compact(slices.Sorted(slices.Values(resources)))
	slices.SortStableFunc(all, func(a, b string) int { return rank(a) - rank(b) })
	return all
}

// place names where replicas are expected.
func (f *statusFlags) place(r *statusReport) string {
	named := fmt.Sprintf("namespace %s (name another one with --usher-namespace)", f.replicas.Namespace)
	if r.stale > 0 {
		named += "; " + cli.Count(r.stale, "Lease of a server that has ended is", "Leases of servers that have ended are") + " left"
	}
	return named
}

// some returns the first few of a list, and how many more there are.
func some(all []string) string {
	const most = 3
	if len(all) <= most+1 {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}

// trust finds CA certificates that API servers cannot trust, and entries that trust others than the rest, as after
// a rotation that was not complete.
func (r *statusReport) trust(called []*admissionv1.WebhookClientConfig) {
	first := slices.IndexFunc(called, func(client *admissionv1.WebhookClientConfig) bool { return len(client.CABundle) > 0 })
	if first < 0 {
		return // API servers trust the CAs of their machine.
	}
	for i, client := range called {
		switch name := r.Webhooks[i].Name; {
		case len(client.CABundle) == 0:
			r.wrongf("the webhook %s has no CA bundle, though others have one%s", name, r.soon())
		case !bytes.Equal(client.CABundle, called[first].CABundle):
			r.wrongf("the webhook %s trusts another CA than the webhook %s%s", name, r.Webhooks[first].Name, r.soon())
		}
	}
	usable, last := 0, time.Time{}
	for rest := called[first].CABundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		ca, err := x509.ParseCertificate(block.Bytes)
		switch {
		case err != nil:
			continue
		case time.Now().Before(ca.NotAfter):
			usable++
		case ca.NotAfter.After(last):
			last = ca.NotAfter
		}
	}
	switch {
	case usable > 0:
	case last.IsZero():
		r.wrongf("the CA bundle of the webhooks has no certificate that can be read")
	default:
		r.wrongf("the CA of the webhooks has expired on %s", last.UTC().Format(time.DateOnly))
	}
}

// policy adds what Usher says of a policy. Kubernetes' own are enforced by API servers, and exemptions enforce nothing.
func (r *statusReport) policy(policy *api.Policy) error {
	kind, ok := api.KindOf(policy.Object)
	if !ok || kind.Foreign || kind.Exempts || policy.Object.GetName() == probe.Name {
		return nil
	}
	status, spec, err := written(policy.Object)
	if err != nil {
		return err
	}
	unproven := denied(status.Conditions, v1alpha1.ConditionProven)
	r.Policies.All++
	ref := compile.Ref(policy.Object)
	if spec["failurePolicy"] == "Ignore" {
		r.failOpen = append(r.failOpen, ref)
	}
	wrongf := func(format string, args ...any) { r.policyf(&ref, format, args...) }
	enforced := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionEnforced)
	r.said(enforced)
	r.counted(policy.Object, spec)
	if subjects := excluding(policy.Object); len(subjects) > 0 {
		r.Excluded = append(r.Excluded, excludedFrom{ref, subjects})
	}
	what, inForce := unenforced(policy.Object, status, unproven != nil)
	switch {
	case api.Suspended(policy.Object):
		r.Policies.Suspended++
	case inForce:
		r.Policies.Enforced++
	case ref.Namespace == "" && enforced != nil && slices.Contains([]string{v1alpha1.ReasonNotVerified, v1alpha1.ReasonNotTried}, enforced.Reason):
		r.Policies.Unverified++
		if !r.unanswered() {
			r.unverified = append(r.unverified, statusProblem{Policy: &ref, What: "whether it is enforced: " + printable.Line(enforced.Message)})
		}
		what = ""
	}
	if what != "" {
		wrongf("%s", what)
	}
	r.warned(ref, status.Problems)
	if what := mistake(status.Problems); what != "" && !api.Suspended(policy.Object) {
		wrongf("it cannot do what it says: %s; mend it, or have it decide nothing until then: %s", what, suspending(policy.Object, &ref))
	}
	// One that is suspended does not fail: its status is of when it was in force.
	if c := denied(status.Conditions, v1alpha1.ConditionWorking); c != nil && !api.Suspended(policy.Object) {
		r.Policies.Failing++
		wrongf(failing+"%s; to have it decide nothing until it is mended: %s", c.Message, suspending(policy.Object, &ref))
	}
	if unproven != nil {
		r.Policies.Unproven++
		wrongf("unproven: %s; look at what it allows, then: usher authz adopt", unproven.Message)
	}
	return nil
}

// written returns what Usher has written into the status of a policy, and its spec.
func written(policy api.Object) (*v1alpha1.PolicyStatus, map[string]any, error) {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(policy)
	if err != nil {
		return nil, nil, fmt.Errorf("read status: %w", err)
	}
	var status v1alpha1.PolicyStatus
	fields, _ := tree["status"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status); err != nil {
		return nil, nil, fmt.Errorf("read status: %w", err)
	}
	spec, _ := tree["spec"].(map[string]any)
	return &status, spec, nil
}

// unenforced returns why the version of a policy that is written is not enforced, and whether one is in force; "" if
// there is nothing to say, or that it is not proven says it.
func unenforced(policy api.Object, status *v1alpha1.PolicyStatus, unproven bool) (what string, inForce bool) {
	enforced := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionEnforced)
	switch {
	case api.Suspended(policy):
		return "suspended: it decides nothing", false
	case enforced == nil:
		return "not enforced: Usher has not written its status", false
	case enforced.Status != metav1.ConditionTrue && unproven:
		return "", false
	case enforced.Status != metav1.ConditionTrue:
		return fmt.Sprintf("not enforced: %s: %s", enforced.Reason, enforced.Message), false
	case enforced.Reason == v1alpha1.ReasonLastGoodVersion:
		return "an older version is enforced: " + enforced.Message, true
	case status.ObservedGeneration < policy.GetGeneration():
		return fmt.Sprintf("an older version is enforced: Usher has not seen generation %d", policy.GetGeneration()), true
	}
	return "", true
}

// mistake returns what a policy cannot do as it says; "" if there is nothing. Such a one is refused when it is written, unless
// nobody was asked then.
func mistake(problems []v1alpha1.PolicyProblem) string {
	i := slices.IndexFunc(problems, func(p v1alpha1.PolicyProblem) bool { return p.Severity == string(rule.Mistake) })
	if i < 0 {
		return ""
	}
	return textOf(&problems[i])
}

// textOf is a problem of a policy with its place, if that is known.
func textOf(p *v1alpha1.PolicyProblem) string { return strings.TrimPrefix(p.Field+": "+p.What, ": ") }

// denied returns a condition that is False; nil if it is not.
func denied(all []metav1.Condition, condition string) *metav1.Condition {
	if !meta.IsStatusConditionFalse(all, condition) {
		return nil
	}
	return meta.FindStatusCondition(all, condition)
}

// failing begins what is said of a policy that fails on requests.
const failing = "failing: "

// suspending returns the command that suspends a policy.
func suspending(object api.Object, ref *usher.PolicyRef) string {
	at := served.Object(ref.Kind, ref.Namespace, ref.Name)
	if api.SuspendField(object) == "spec.suspend" {
		return "kubectl patch " + at + ` --type merge -p '{"spec":{"suspend":true}}'`
	}
	return "kubectl annotate " + at + " " + api.AnnotationSuspend + "=true"
}

// policyf adds a problem of a policy.
func (r *statusReport) policyf(ref *usher.PolicyRef, format string, args ...any) {
	if r.unanswered() {
		// That is why, and status is what Usher wrote before.
		return
	}
	to := &r.Problems
	if ref.Namespace != "" {
		// Who may write in a namespace does not decide what is said of the cluster.
		to = &r.NamespaceProblems
	}
	*to = append(*to, statusProblem{Policy: ref, What: printable.Line(fmt.Sprintf(format, args...))})
}
