package try

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/printable"
)

var (
	errAllowed  = errors.New("allowed")
	errNeedless = fmt.Errorf("%w: it needs no exemption", errAllowed)
	errNoHelp   = errors.New("no exemption helps")
)

// exemptionOptions are what the author of an exemption decides.
type exemptionOptions struct {
	name, reason, owner, action string
	images                      []string
	namespaced                  bool
	expires                     time.Time
}

// An exemption is one that helps, and the denial that it is for.
type exemption struct {
	// about says what is refused.
	about, refusal string
	// more are the other messages of what refuses it.
	more []string
	tree map[string]any
}

// An exemptRef is a policy from which a request is exempt. Without validations, it is exempt from the
// whole policy.
type exemptRef struct {
	kind, name  string
	validations []string
	whole       bool
}

// exempt returns the exemption with which the request is allowed. A request that is exempt from one
// policy may be refused by another that was not asked before.
func (d *decided) exempt(ctx context.Context, o exemptionOptions) (exemption, error) {
	v, err := d.decide(ctx)
	if err != nil {
		return exemption{}, err
	}
	if v.Verdict != usher.Deny {
		return exemption{}, allowed(&v)
	}
	r := v.request
	x := exemption{about: aboutRequest(r) + " is refused", refusal: v.Message}
	if d.workload != nil && r.Kind.Kind == "Pod" {
		x.about = oneLine("the pods of "+d.workload.String()) + " are refused"
	}
	if o.namespaced && d.unplaced {
		return exemption{}, fmt.Errorf("%w: the request names no namespace in which a PolicyExemption could be: write it into request.namespace, or leave out --namespaced if the object has none", errNoHelp)
	}
	if o.namespaced && !inNamespace(r) {
		return exemption{}, fmt.Errorf("%w: the object has no namespace, so that a PolicyExemption cannot be for it; leave out --namespaced", errNoHelp)
	}
	var refs []exemptRef
	asked := o.namespaced
	x.more = otherMessages(&v)
	for extend(&refs, v.Findings) {
		o.namespaced = asked || inNamespace(r) && ownPolicies(refs)
		if x.tree, err = o.tree(&v, refs, d.workload); err != nil {
			return exemption{}, err
		}
		policy, err := policyOf(x.tree)
		if err != nil {
			return exemption{}, err
		}
		if v, err = d.decide(ctx, policy); err != nil {
			return exemption{}, err
		}
		if v.Verdict != usher.Deny {
			return x, nil
		}
	}
	why := reasons(v.Findings)
	if o.namespaced {
		why += " (a PolicyExemption counts only for an ObjectPolicy of its namespace, and for a ClusterObjectPolicy with namespaceExemptions: Allow)"
	}
	return exemption{}, fmt.Errorf("%w: the request is still refused: %s%s", errNoHelp, cmp.Or(v.Message, "without a message"), why)
}

// otherMessages returns what else refuses a request, as its message does not say, with the field that it is about.
func otherMessages(v *verdict) []string {
	const most = 20
	var all []string
	for i := range v.Findings {
		f := &v.Findings[i]
		for j := range f.Checks {
			c := &f.Checks[j]
			if refuses(f) && slices.Contains(c.Actions, usher.ActDeny) && !strings.Contains(v.Message, c.Message) {
				all = append(all, oneLine(cmp.Or(c.Field, c.Validation, c.Name)+": "+c.Message))
			}
		}
	}
	if more := len(all) - most; more > 0 {
		all = append(all[:most], fmt.Sprintf("and %d more", more))
	}
	return all
}

// ownPolicies reports whether all policies are those of a namespace, whose owner may exempt from them.
func ownPolicies(refs []exemptRef) bool {
	return !slices.ContainsFunc(refs, func(ref exemptRef) bool {
		kind, _ := api.KindCalled(ref.kind)
		return !kind.ObjectPolicy || !kind.Namespaced
	})
}

// allowed returns the error of a request that is not refused, with the policies that would refuse it if they denied.
func allowed(v *verdict) error {
	if len(v.others) > 0 {
		return fmt.Errorf("%w by what --policy names, and refused by %s", errAllowed, strings.Join(v.others, ", "))
	}
	findings := v.Findings
	var refs []string
	for i := range findings {
		f := &findings[i]
		warns := slices.ContainsFunc(f.Checks, func(c usher.Check) bool { return len(c.Actions) > 0 })
		if ref := f.Policy.String(); !f.Written && (f.Outcome == usher.WouldDeny || f.Outcome == usher.Passed && warns) && !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	if exempt := exemptBy(findings); exempt != "" {
		return fmt.Errorf("%w by %s; to extend it, write a later expiresAt in it", errAllowed, exempt)
	}
	if len(refs) == 0 {
		return errNeedless
	}
	return fmt.Errorf("%w, with a warning or an audit annotation of %s: --if-denied writes the exemption before they deny", errAllowed, strings.Join(refs, ", "))
}

// exemptBy names the exemption because of which a request is not refused that ends first; empty if there is none.
func exemptBy(findings []usher.Finding) string {
	var first *usher.Exemption
	for i := range findings {
		for j := range findings[i].Exemptions {
			if x := &findings[i].Exemptions[j]; first == nil || x.ExpiresAt.Before(first.ExpiresAt) {
				first = x
			}
		}
	}
	if first == nil {
		return ""
	}
	return printable.Line(first.String()) + ", until " + first.ExpiresAt.UTC().Format(time.RFC3339)
}

// same reports whether two exemptions are the same.
func (x *exemption) same(other exemption) bool { return reflect.DeepEqual(x.tree, other.tree) }

// reasons returns why exemptions do not apply.
func reasons(findings []usher.Finding) string {
	var all []string
	for i := range findings {
		for _, x := range findings[i].NotExempt {
			all = append(all, x.Why...)
		}
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, "; ") + ")"
}

// extend adds the policies that refuse a request, and reports whether there are new ones. If the
// request is refused by a policy although it is exempt from the validations, it has to be exempt from
// the whole policy.
func extend(refs *[]exemptRef, findings []usher.Finding) bool {
	extended := false
	for i := range findings {
		f := &findings[i]
		if !refuses(f) {
			continue
		}
		at := slices.IndexFunc(*refs, func(r exemptRef) bool { return r.kind == f.Policy.Kind && r.name == f.Policy.Name })
		if at < 0 {
			*refs = append(*refs, exemptRef{kind: f.Policy.Kind, name: f.Policy.Name})
			at = len(*refs) - 1
		}
		extended = (*refs)[at].extend(refusing(f)) || extended
	}
	return extended
}

// extend reports whether it adds something.
func (r *exemptRef) extend(validations []string) bool {
	if r.whole {
		return false
	}
	before := len(r.validations)
	for _, v := range validations {
		if !slices.Contains(r.validations, v) {
			r.validations = append(r.validations, v)
		}
	}
	r.whole = len(r.validations) == before
	return true
}

// refusing returns the names of the validations that refuse a request, or their places; none if it is
// the policy as a whole that does.
func refusing(f *usher.Finding) []string {
	var all []string
	for _, c := range f.Checks {
		if !c.Failed && !slices.Contains(c.Actions, usher.ActDeny) {
			continue
		}
		if c.Validation != "" {
			all = append(all, c.Validation)
			continue
		}
		all = append(all, c.Name)
	}
	if kind, _ := api.KindCalled(f.Policy.Kind); len(all) == 0 && kind.IsValidation(f.Rule) {
		all = append(all, f.Rule)
	}
	return all
}

// tree returns the exemption of a request from policies, as narrow as possible. With a workload it
// is for this one and all of its pods.
func (o *exemptionOptions) tree(v *verdict, refs []exemptRef, w *workload) (map[string]any, error) {
	r := v.request
	name, generated, err := nameAndPrefix(r)
	if err != nil {
		return nil, err
	}
	parts := v.partsOf(refs)
	rules := []any{resourceRule(r, name, parts)}
	if w != nil {
		name, generated, rules = w.name, "", w.rules(parts)
	}
	metadata := map[string]any{"name": o.name}
	match := map[string]any{"resourceRules": rules}
	kind := "ClusterPolicyExemption"
	switch {
	case o.namespaced:
		kind, metadata["namespace"] = "PolicyExemption", r.Namespace
	case inNamespace(r):
		match["namespaceSelector"] = map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": r.Namespace}}
	}
	spec := map[string]any{
		"policyRefs": policyRefs(refs), "matchConstraints": match,
		"reason": o.reason, "owner": o.owner, "expiresAt": o.expires.Format(time.RFC3339),
	}
	switch {
	case w != nil:
		spec["matchConditions"] = []any{w.condition()}
	case name == "" && generated != "":
		spec["matchConditions"] = []any{map[string]any{
			"name": "generated-name", "expression": "object.metadata.?generateName.orValue('') == " + strconv.Quote(generated),
		}}
	}
	if o.action != string(v1alpha1.ExemptionActionSkip) {
		spec["action"] = o.action
	}
	if len(o.images) > 0 {
		spec["images"] = anys(o.images)
	}
	if o.name == "" {
		if metadata["name"], err = exemptionName(refs[0].name, r, name+generated, spec); err != nil {
			return nil, err
		}
	}
	return map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind, "metadata": metadata, "spec": spec}, nil
}

func policyRefs(refs []exemptRef) []any {
	var all []any
	for _, ref := range refs {
		written := map[string]any{"kind": ref.kind, "name": ref.name}
		if !ref.whole && len(ref.validations) > 0 {
			written["validations"] = anys(ref.validations)
		}
		all = append(all, written)
	}
	return all
}

func anys(texts []string) []any {
	all := make([]any, len(texts))
	for i, text := range texts {
		all[i] = text
	}
	return all
}

// inNamespace reports whether the object of a request is in a namespace.
func inNamespace(r *usher.Request) bool {
	return r.Namespace != "" && (r.Resource.Resource != "namespaces" || r.Resource.Group != "")
}

func policyOf(tree map[string]any) (api.Policy, error) {
	text, err := json.Marshal(tree)
	if err != nil {
		return api.Policy{}, fmt.Errorf("encode exemption: %w", err)
	}
	return api.Decode(text)
}

func treeOf(policy api.Policy) (map[string]any, error) {
	text, err := json.Marshal(policy.Object)
	if err != nil {
		return nil, fmt.Errorf("encode exemption: %w", err)
	}
	var tree map[string]any
	return tree, json.Unmarshal(text, &tree)
}

// aboutRequest describes a request.
func aboutRequest(r *usher.Request) string {
	object, err := r.Target().Tree()
	if err != nil {
		return string(r.Operation) + " " + r.Kind.Kind
	}
	name := result.ToBe(object)
	if name.Name == "" {
		name.Namespace, name.Name = r.Namespace, r.Name
	}
	if name.Namespace == "" && inNamespace(r) {
		name.Namespace = r.Namespace
	}
	return oneLine(string(r.Operation) + " " + name.String())
}

// nameOf is [aboutRequest] with the namespace that the object itself names.
func nameOf(r *usher.Request) string {
	bare := *r
	bare.Namespace = ""
	return aboutRequest(&bare)
}

// oneLine returns a text for a comment: objects and messages may have lines of their own.
func oneLine(text string) string {
	return printable.Line(strings.Join(strings.Fields(text), " "))
}

// printExemptions writes exemptions as YAML documents, each below the denial that it is for.
func printExemptions(w io.Writer, written []exemption) error {
	seen := map[string]int{}
	for i := range written {
		metadata, _ := written[i].tree["metadata"].(map[string]any)
		name, _ := metadata["name"].(string)
		namespace, _ := metadata["namespace"].(string)
		if seen[namespace+"/"+name]++; seen[namespace+"/"+name] > 1 {
			metadata["name"] = fmt.Sprintf("%s-%d", name, seen[namespace+"/"+name])
		}
		text, err := printable.YAML(written[i].tree)
		if err != nil {
			return fmt.Errorf("encode exemption: %w", err)
		}
		between := ""
		if i > 0 {
			between = "---\n"
		}
		title := strings.Join(append([]string{written[i].title()}, written[i].more...), "\n#   ")
		if _, err := fmt.Fprintf(w, "%s# %s\n%s", between, title, text); err != nil {
			return err
		}
	}
	return nil
}

// title is the first line of an exemption: the denial that it is for.
func (x *exemption) title() string {
	if x.refusal == "" {
		return x.about
	}
	return x.about + ": " + oneLine(x.refusal)
}
