package live

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/cmd/usher/internal/policies"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/printable"
)

// mostOfAKind is how many policies of a kind are listed.
const mostOfAKind = 5000

// A Scope is a namespace, or all of them if it is empty.
type Scope struct {
	Namespace string `json:"namespace"`
}

// A Listing is what policies there are.
type Listing struct {
	Policies   []Policy    `json:"policies"`
	Candidates []Candidate `json:"candidates"`
	Exemptions []Exemption `json:"exemptions"`
	Missing    []Gap       `json:"missing"`
}

// A Policy is a policy in a list.
type Policy struct {
	Ref   Ref    `json:"ref"`
	Group string `json:"group"`
	// Action is what follows from it, and Kinds what it is for, in short.
	Action   string `json:"action"`
	Kinds    string `json:"kinds"`
	Severity string `json:"severity"`
	Category string `json:"category"`
	Title    string `json:"title"`
	// State is enforced, pending, failing, broken, suspended, unproven or unknown, and Why says more.
	State    string `json:"state"`
	Why      string `json:"why"`
	Problems int    `json:"problems"`
	// Foreign says that API servers enforce it, and not Usher.
	Foreign bool      `json:"foreign"`
	Created time.Time `json:"created,omitzero"`
}

// A Candidate is a policy candidate in a list.
type Candidate struct {
	Ref   Ref    `json:"ref"`
	State string `json:"state"`
	Why   string `json:"why"`
	// Since is when counting began.
	Since time.Time `json:"since,omitzero"`
	// CountedAt is when the numbers were last written.
	CountedAt time.Time `json:"countedAt,omitzero"`
	usherv1alpha1.CandidateCounts
	Policies []Ref `json:"policies"`
	// Replaces is nil if the policies are compared with those of the same names.
	Replaces *Ref `json:"replaces"`
	// Remove says that the candidate is to do without what it replaces.
	Remove  bool   `json:"remove"`
	Problem string `json:"problem"`
}

// An Exemption is a policy exemption in a list.
type Exemption struct {
	Ref       Ref                       `json:"ref"`
	Policies  []usherv1alpha1.PolicyRef `json:"policies"`
	Reason    string                    `json:"reason"`
	Owner     string                    `json:"owner"`
	Expires   time.Time                 `json:"expires,omitzero"`
	Expired   bool                      `json:"expired"`
	Suspended bool                      `json:"suspended"`
	Uses      int64                     `json:"uses"`
	LastUsed  time.Time                 `json:"lastUsed,omitzero"`
	State     string                    `json:"state"`
	Why       string                    `json:"why"`
	Problem   string                    `json:"problem"`
}

func (l *Live) policies(ctx context.Context, in *Scope) (*Listing, error) {
	if err := checkNamespace(in.Namespace); err != nil {
		return nil, err
	}
	if l.clients == nil {
		all := listed(nil)
		all.Missing = append(all.Missing, noKubeconfig)
		return all, nil
	}
	kinds := api.ForeignKinds()
	for _, kind := range api.Kinds() {
		kinds = append(kinds, []api.Kind{kind})
	}
	found, gaps := l.list(ctx, kinds, in.Namespace)
	all := listed(found)
	all.Missing = append(all.Missing, gaps...)
	return all, nil
}

// listed returns a list of policies that were found.
func listed(found []stored) *Listing {
	all := &Listing{Policies: []Policy{}, Candidates: []Candidate{}, Exemptions: []Exemption{}, Missing: []Gap{}}
	for i := range found {
		s := &found[i]
		switch object := s.policy.Object.(type) {
		case *usherv1alpha1.ClusterPolicyCandidate:
			all.Candidates = append(all.Candidates, candidateOf(s, &object.Spec, &object.Status))
		case *usherv1alpha1.PolicyCandidate:
			all.Candidates = append(all.Candidates, candidateOf(s, &object.Spec, &object.Status))
		case *usherv1alpha1.ClusterPolicyExemption:
			all.Exemptions = append(all.Exemptions, exemptionOf(s, &object.Spec, &object.Status))
		case *usherv1alpha1.PolicyExemption:
			all.Exemptions = append(all.Exemptions, exemptionOf(s, &object.Spec, &object.Status))
		default:
			if !strings.HasSuffix(s.kind.Kind, "PolicyBinding") {
				all.Policies = append(all.Policies, policyOf(s))
			}
		}
	}
	return all
}

// A stored is a policy as the API server has it.
type stored struct {
	kind   api.Kind
	object *unstructured.Unstructured
	policy api.Policy
}

func (s *stored) ref() Ref { return Ref{s.kind.Kind, s.object.GetNamespace(), s.object.GetName()} }

// list reads kinds, each in the first of its versions that is served, and returns what the user may not read. All are
// asked for at once: a kind takes one request.
func (l *Live) list(ctx context.Context, kinds [][]api.Kind, namespace string) ([]stored, []Gap) {
	found, errs := make([][]stored, len(kinds)), make([]error, len(kinds))
	var reading sync.WaitGroup
	for i := range kinds {
		reading.Go(func() { found[i], errs[i] = l.listFirst(ctx, kinds[i], namespace) })
	}
	reading.Wait()
	var forbidden []policies.Forbidden
	var gaps []Gap
	for i, err := range errs {
		switch {
		case apierrors.IsForbidden(err):
			forbidden = append(forbidden, policies.Forbidden{Kind: kinds[i][0], Err: err})
		case err != nil:
			gaps = append(gaps, Gap{"policies", fmt.Sprintf("list %s: %s", kinds[i][0].Kind, printable.Line(err.Error())), "kubectl get " + resource(&kinds[i][0])})
		}
	}
	if len(forbidden) > 0 {
		gaps = append(gaps, notListed(forbidden, namespace))
	}
	all := slices.Concat(found...)
	slices.SortFunc(all, func(a, b stored) int {
		x, y := a.ref(), b.ref()
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return all, gaps
}

func notListed(forbidden []policies.Forbidden, namespace string) Gap {
	text := policies.NoRight(forbidden)
	if namespace == "" {
		return Gap{"policies", text + " in all namespaces: choose a namespace, or have an administrator grant you the verb list on them", "kubectl auth can-i --list --namespace NAMESPACE"}
	}
	return Gap{"policies", text + ": an administrator can grant you the verb list on them (docs/explain.md#rights has the ClusterRole)", "kubectl auth can-i --list --namespace " + namespace}
}

// resource names a kind for kubectl.
func resource(kind *api.Kind) string {
	return kind.GroupVersionResource().GroupResource().String()
}

func (l *Live) listFirst(ctx context.Context, versions []api.Kind, namespace string) ([]stored, error) {
	for i := range versions {
		all, err := l.listOne(ctx, &versions[i], namespace)
		if !apierrors.IsNotFound(err) {
			return all, err
		}
	}
	return nil, nil
}

func (l *Live) listOne(ctx context.Context, kind *api.Kind, namespace string) ([]stored, error) {
	var all []stored
	for next := ""; ; {
		page, err := cluster.Policies(l.clients.Policies, kind, namespace).List(ctx, metav1.ListOptions{Limit: 500, Continue: next})
		if err != nil {
			return all, err
		}
		for i := range page.Items {
			one, err := decoded(kind, &page.Items[i])
			if err == nil {
				all = append(all, one)
			}
		}
		if next = page.GetContinue(); next == "" {
			return all, nil
		}
		if len(all) >= mostOfAKind {
			return all, fmt.Errorf("there are more than %d: choose a namespace", mostOfAKind)
		}
	}
}

func decoded(kind *api.Kind, object *unstructured.Unstructured) (stored, error) {
	if object.GetKind() == "" {
		object.SetGroupVersionKind(kind.GroupVersionKind)
	}
	encoded, err := json.Marshal(object.Object)
	if err != nil {
		return stored{}, err
	}
	policy, err := api.Decode(encoded)
	return stored{*kind, object, policy}, err
}

func policyOf(s *stored) Policy {
	compiled := compile.Compiled{Policy: s.policy}
	description, _ := compiled.About()
	row := Policy{
		Ref: s.ref(), Group: s.kind.Group, Foreign: s.kind.Foreign, Created: s.object.GetCreationTimestamp().Time,
		Action: compiled.Action(), Kinds: cmp.Or(compiled.Kinds(), kindsOf(s)), Severity: string(compiled.Severity()), Category: compiled.Category(),
		Title: printable.Cut(firstSentence(description), 200),
	}
	status := statusOf(s)
	row.Problems = len(status.Problems)
	row.State, row.Why = stateOf(s, status.Conditions)
	return row
}

// statusOf returns the status of a policy, as far as it has one of this form.
func statusOf(s *stored) v1alpha1.PolicyStatus {
	var status v1alpha1.PolicyStatus
	if s.kind.Foreign {
		return status
	}
	if encoded, err := json.Marshal(s.object.Object["status"]); err == nil {
		// What has another form says nothing.
		_ = json.Unmarshal(encoded, &status)
	}
	return status
}

// stateOf returns the word for how a policy does, and why.
func stateOf(s *stored, conditions []metav1.Condition) (state, why string) {
	if s.kind.Foreign {
		return "enforced", "API servers enforce it"
	}
	is := func(kind string, status metav1.ConditionStatus) *metav1.Condition {
		c := meta.FindStatusCondition(conditions, kind)
		if c == nil || c.Status != status {
			return nil
		}
		return c
	}
	if api.Suspended(s.policy.Object) {
		return "suspended", cmp.Or(s.object.GetAnnotations()[api.AnnotationSuspended], "it decides nothing until it is resumed")
	}
	for _, x := range []struct {
		kind   string
		status metav1.ConditionStatus
		state  string
	}{
		{v1alpha1.ConditionCompiled, metav1.ConditionFalse, "broken"},
		{v1alpha1.ConditionProven, metav1.ConditionFalse, "unproven"},
		{v1alpha1.ConditionWorking, metav1.ConditionFalse, "failing"},
		{v1alpha1.ConditionEnforced, metav1.ConditionFalse, "pending"},
		{v1alpha1.ConditionEnforced, metav1.ConditionUnknown, "pending"},
		{v1alpha1.ConditionEnforced, metav1.ConditionTrue, "enforced"},
	} {
		if c := is(x.kind, x.status); c != nil {
			return x.state, c.Message
		}
	}
	for _, c := range conditions {
		// Exemptions and candidates have conditions of their own.
		return strings.ToLower(c.Type + " " + string(c.Status)), c.Message
	}
	return "unknown", "no replica has said anything about it yet"
}

func firstSentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if first, _, cut := strings.Cut(text, ". "); cut {
		return first + "."
	}
	return text
}

func candidateOf(s *stored, spec *usherv1alpha1.PolicyCandidateSpec, status *usherv1alpha1.PolicyCandidateStatus) Candidate {
	c := Candidate{Ref: s.ref(), CandidateCounts: status.CandidateCounts, Policies: []Ref{}, Remove: spec.Remove, Problem: status.LastError}
	c.State, c.Why = stateOf(s, status.Conditions)
	if status.Since != nil {
		c.Since = status.Since.Time
	}
	if status.CountedAt != nil {
		c.CountedAt = status.CountedAt.Time
	}
	if spec.Replaces != nil {
		c.Replaces = &Ref{spec.Replaces.Kind, spec.Replaces.Namespace, spec.Replaces.Name}
		if !strings.HasPrefix(spec.Replaces.Kind, "Cluster") {
			c.Replaces.Namespace = cmp.Or(c.Replaces.Namespace, s.object.GetNamespace())
		}
	}
	for i := range spec.Policies {
		if p, err := api.Decode(spec.Policies[i].Raw); err == nil {
			ref := refOf(compile.Ref(p.Object))
			ref.Namespace = cmp.Or(ref.Namespace, inNamespaceOf(p.Object, s.object.GetNamespace()))
			c.Policies = append(c.Policies, ref)
		}
	}
	return c
}

// inNamespaceOf returns the namespace that a policy embedded in a candidate has.
func inNamespaceOf(p api.Object, candidate string) string {
	if kind, ok := api.KindOf(p); ok && kind.Namespaced {
		return candidate
	}
	return ""
}

func exemptionOf(s *stored, spec *usherv1alpha1.PolicyExemptionSpec, status *usherv1alpha1.PolicyExemptionStatus) Exemption {
	x := Exemption{
		Ref: s.ref(), Policies: append([]usherv1alpha1.PolicyRef{}, spec.PolicyRefs...), Reason: spec.Reason, Owner: spec.Owner,
		Expires: spec.ExpiresAt.Time, Expired: time.Now().After(spec.ExpiresAt.Time), Suspended: spec.Suspend, Uses: status.Uses, Problem: status.LastError,
	}
	x.State, x.Why = stateOf(s, status.Conditions)
	if status.LastUsed != nil {
		x.LastUsed = status.LastUsed.Time
	}
	return x
}

// exempts reports whether an exemption names a policy; one in a namespace is for this namespace.
func (x *Exemption) exempts(p Ref) bool {
	return slices.ContainsFunc(x.Policies, func(r usherv1alpha1.PolicyRef) bool {
		before, after, starred := strings.Cut(r.Name, "*")
		named := r.Name == p.Name || starred && len(p.Name) >= len(before)+len(after) && strings.HasPrefix(p.Name, before) && strings.HasSuffix(p.Name, after)
		return r.Kind == p.Kind && named && (x.Ref.Namespace == "" || p.Namespace == "" || x.Ref.Namespace == p.Namespace)
	})
}

// about reports whether a candidate is about a policy.
func (c *Candidate) about(p Ref) bool {
	return c.Replaces != nil && *c.Replaces == p || slices.Contains(c.Policies, p)
}
