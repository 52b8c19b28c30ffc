package live

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/cmd/usher/internal/served"
	"github.com/usher-dev/usher/cmd/usher/internal/try"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/console"
	"github.com/usher-dev/usher/internal/printable"
)

// mostOpened is how many policies are opened at once.
const mostOpened = 20

// An Opening is what to open in the playground: a result of the audit, or a decision.
type Opening struct {
	// Object is nil if there is none, as of a request that was refused.
	Object *result.Identity `json:"object,omitempty"`
	// Policy and Policies are those that decided.
	Policy   *Ref   `json:"policy,omitempty"`
	Policies []Ref  `json:"policies,omitempty"`
	User     string `json:"user,omitempty"`
	// Operation is CREATE without any.
	Operation   string `json:"operation,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	// Request names a request that was refused, of which there may be a recording; nil for none.
	Request *RequestRef `json:"request,omitempty"`
}

// A RequestRef names a request that a replica has decided.
type RequestRef struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace,omitempty"`
	Replica   string `json:"replica,omitempty"`
}

// Opened is a state of the playground.
type Opened struct {
	State console.State `json:"state"`
	// Lacks says what differs from what was decided.
	Lacks    []string  `json:"lacks"`
	Commands []Command `json:"commands"`
	Missing  []Gap     `json:"missing"`
}

// notKept says what the live object does not tell.
const notKept = "the request is not kept: the object is as it is now, and not as it was sent"

func (l *Live) open(ctx context.Context, in *Opening) (*Opened, error) {
	o := &Opened{Lacks: []string{}, Commands: []Command{}, Missing: []Gap{}}
	o.State.User.Name, o.State.Operation, o.State.Subresource = in.User, in.Operation, in.Subresource
	o.lines(in)
	if l.clients == nil {
		o.Missing = append(o.Missing, noKubeconfig)
		return o, nil
	}
	policies := in.Policies
	if in.Policy != nil && !slices.Contains(policies, *in.Policy) {
		policies = append([]Ref{*in.Policy}, policies...)
	}
	if len(policies) > mostOpened {
		o.Lacks = append(o.Lacks, fmt.Sprintf("policies that are not opened: %d", len(policies)-mostOpened))
		policies = policies[:mostOpened]
	}
	texts, err := l.sources(ctx, policies, o)
	if err != nil {
		return nil, err
	}
	o.State.Policies = strings.Join(texts, "---\n")
	if in.Request != nil {
		found, err := l.recorded(ctx, in.Request, o)
		if found || err != nil {
			return o, err
		}
	}
	if in.User != "" && len(o.State.User.Groups) == 0 {
		o.Lacks = append(o.Lacks, "the groups of the user are not known: add them if policies read them")
	}
	if in.Object == nil || in.Object.Name == "" {
		o.Missing = append(o.Missing, notRecorded)
		return o, nil
	}
	if err := l.object(ctx, in, o); err != nil {
		return nil, err
	}
	if o.State.Object+o.State.OldObject != "" && o.State.Policies != "" {
		return o, l.gather(ctx, o)
	}
	return o, nil
}

var notRecorded = Gap{"recordings", "Usher keeps the names of requests, and what is in those that it refuses only with usher serve --record-memory: write the object that was refused into the playground", ""}

// lines adds commands about an object.
func (o *Opened) lines(in *Opening) {
	if in.Object == nil || in.Object.Name == "" || in.Object.Kind == "" {
		o.Commands = append(o.Commands, Command{"exempt it", "usher exempt --from-cluster -f REFUSED.yaml --reason WHY --owner WHO"})
		return
	}
	x := in.Object
	named := served.Object(x.Kind, x.Namespace, x.Name)
	o.Commands = append(o.Commands,
		Command{"exempt it", served.Exempt(x.Kind, x.Namespace, x.Name, " --if-denied") + " > exemption.yaml"},
		Command{"put the exemption into force", "kubectl apply -f exemption.yaml"},
		Command{"explain it", "usher explain --from-cluster " + named},
		Command{"see the object", "kubectl get " + named + " -o yaml"},
		Command{"edit the object", "kubectl edit " + named},
	)
}

// sources returns the policies as texts, with their bindings and the exemptions from them, or the policies in candidates.
func (l *Live) sources(ctx context.Context, policies []Ref, o *Opened) ([]string, error) {
	var texts []string
	exempt := false
	for _, ref := range policies {
		one, err := l.get(ctx, ref)
		if err != nil {
			o.Missing = append(o.Missing, Gap{"policies", printable.Line(err.Error()), ""})
			continue
		}
		all := []*stored{one}
		switch {
		case one.kind.Candidate:
			embedded, err := inCandidate(one)
			if err != nil {
				return nil, err
			}
			texts = append(texts, embedded...)
			continue
		case one.kind.Foreign:
			all = append(all, l.bindings(ctx, one, o)...)
		}
		exempt = exempt || one.kind.Exemptible
		for _, s := range all {
			text, err := sourceOf(s)
			if err != nil {
				return nil, err
			}
			texts = append(texts, text)
		}
	}
	if !exempt {
		return texts, nil
	}
	more, err := l.exemptions(ctx, policies, o)
	return append(texts, more...), err
}

// inCandidate returns the policies in a candidate.
func inCandidate(s *stored) ([]string, error) {
	var spec *usherv1alpha1.PolicyCandidateSpec
	switch object := s.policy.Object.(type) {
	case *usherv1alpha1.ClusterPolicyCandidate:
		spec = &object.Spec
	case *usherv1alpha1.PolicyCandidate:
		spec = &object.Spec
	default:
		return nil, nil
	}
	var texts []string
	for i := range spec.Policies {
		p, err := api.Decode(spec.Policies[i].Raw)
		if err != nil {
			return nil, err
		}
		var tree map[string]any
		if err := json.Unmarshal(spec.Policies[i].Raw, &tree); err != nil {
			return nil, fmt.Errorf("decode policy: %w", err)
		}
		if namespace := inNamespaceOf(p.Object, s.object.GetNamespace()); namespace != "" && p.Object.GetNamespace() == "" {
			if err := unstructured.SetNestedField(tree, namespace, "metadata", "namespace"); err != nil {
				return nil, fmt.Errorf("decode policy: %w", err)
			}
		}
		text, err := printable.YAML(tree)
		if err != nil {
			return nil, fmt.Errorf("encode policy: %w", err)
		}
		texts = append(texts, string(text))
	}
	return texts, nil
}

// bindings returns the bindings of an admission policy of Kubernetes, without which it decides nothing.
func (l *Live) bindings(ctx context.Context, policy *stored, o *Opened) []*stored {
	versions := versionsOf(policy.kind.Kind + "Binding")
	if len(versions) == 0 {
		return nil
	}
	found, gaps := l.list(ctx, [][]api.Kind{versions}, "")
	o.Missing = append(o.Missing, gaps...)
	var all []*stored
	for i := range found {
		spec, _ := found[i].object.Object["spec"].(map[string]any)
		if spec["policyName"] == policy.object.GetName() {
			all = append(all, &found[i])
		}
	}
	return all
}

// exemptions returns those from some policies.
func (l *Live) exemptions(ctx context.Context, policies []Ref, o *Opened) ([]string, error) {
	var kinds [][]api.Kind
	for _, k := range api.Kinds() {
		if k.Exempts {
			kinds = append(kinds, []api.Kind{k})
		}
	}
	namespace := ""
	for _, p := range policies {
		namespace = cmp.Or(namespace, p.Namespace)
	}
	found, gaps := l.list(ctx, kinds, namespace)
	o.Missing = append(o.Missing, gaps...)
	var texts []string
	for i := range found {
		all := listed(found[i : i+1])
		if !slices.ContainsFunc(policies, all.Exemptions[0].exempts) {
			continue
		}
		text, err := sourceOf(&found[i])
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// object adds the object as it is now.
func (l *Live) object(ctx context.Context, in *Opening, o *Opened) error {
	x := in.Object
	gap := func(text string) error {
		o.Missing = append(o.Missing, Gap{"object", printable.Line(text), "kubectl get " + served.Object(x.Kind, x.Namespace, x.Name) + " -o yaml"})
		return nil
	}
	if err := checkNamespace(x.Namespace); err != nil {
		return err
	}
	if fact.Confidential(x.Kind) {
		return gap("a " + x.Kind + " holds credentials, which do not belong into a text that is shared")
	}
	gvk := schema.FromAPIVersionAndKind(x.APIVersion, x.Kind)
	mapping, err := l.clients.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return gap(err.Error())
	}
	namespace := x.Namespace
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		namespace = ""
	}
	found, err := l.clients.Facts.Resource(mapping.Resource).Namespace(namespace).Get(ctx, x.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		o.Missing = append(o.Missing, notRecorded)
		// Nothing can be done about an object that is not there.
		o.Commands = []Command{}
		o.lines(&Opening{})
		return gap(err.Error())
	case err != nil:
		return gap(err.Error())
	}
	text, err := printable.YAML(try.AsWritten(found))
	if err != nil {
		return fmt.Errorf("encode object: %w", err)
	}
	switch usher.Operation(strings.ToUpper(in.Operation)) {
	case usher.Delete:
		o.State.OldObject = string(text)
	case usher.Update:
		o.State.Object, o.State.OldObject = string(text), string(text)
		o.Lacks = append(o.Lacks, notKept+"; the old object is the same")
	default:
		o.State.Object = string(text)
		o.Lacks = append(o.Lacks, notKept)
	}
	return nil
}

// gather adds the facts that the policies read to decide about the object.
func (l *Live) gather(ctx context.Context, o *Opened) error {
	s := &o.State
	g, err := l.attempts.Gather(ctx, &try.Attempt{
		Policies: s.Policies, Object: s.Object, OldObject: s.OldObject, User: usher.User{Name: s.User.Name, Groups: s.User.Groups},
		Operation: s.Operation, Resource: s.Resource, Subresource: s.Subresource, Namespace: s.Namespace, Name: s.Name, DryRun: s.DryRun,
	}, fact.Resolvers{fact.Objects: l.facts})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		o.Lacks = append(o.Lacks, "what the policies read: "+printable.Line(err.Error()))
		return nil
	}
	o.Lacks = append(o.Lacks, g.Lacks...)
	texts := make([]string, len(g.Objects))
	for i, object := range g.Objects {
		text, err := printable.YAML(object)
		if err != nil {
			return fmt.Errorf("encode fact: %w", err)
		}
		texts[i] = string(text)
	}
	s.Facts = strings.Join(texts, "---\n")
	return nil
}
