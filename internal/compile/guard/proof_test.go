package guard_test

import (
	"bytes"
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile/guard"
	"github.com/usher-dev/usher/internal/jsonpatch"
	"github.com/usher-dev/usher/internal/keyring"
	"github.com/usher-dev/usher/internal/proof"
)

// A proving is an API server with a guard in front of it that makes proofs: admin and robot may
// everything, mallory writes policies and may do nothing else.
type proving struct {
	t      *testing.T
	guard  usher.Decider
	prover *proof.Prover
	// untrusted says that callers of the guard do not prove who they are.
	untrusted bool
	// later, if set, is a webhook that mutates after the guard.
	later func(object map[string]any)
	// asked counts the questions about rights.
	asked int
}

func newProving(t *testing.T) *proving {
	t.Helper()
	p := &proving{t: t, prover: &proof.Prover{}}
	p.keys(1)
	p.guard = guard.Wrap(usher.DeciderFunc(allow), guard.Options{Proofs: p.prover, May: p.may})
	return p
}

func (p *proving) may(_ context.Context, r *usher.Request) (bool, error) {
	p.asked++
	return r.User.Name == "admin" || r.User.Name == "robot", nil
}

// keys uses keys, the first of which signs.
func (p *proving) keys(fill ...byte) {
	p.t.Helper()
	s := proof.State{Record: proof.RecordOf(nil, time.Now())}
	for _, f := range fill {
		key, err := keyring.KeyOf(bytes.Repeat([]byte{f}, keyring.KeySize))
		if err != nil {
			p.t.Fatal(err)
		}
		s.Valid = append(s.Valid, key)
	}
	s.Sign = s.Valid[0]
	p.prover.Use(s)
}

const grant = `{apiVersion: usher.dev/v1alpha1, kind: AuthorizationPolicy, metadata: {name: p, namespace: shop}, spec: {
	effect: Allow, subjects: [{users: [jane]}], rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]}}`

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(text, "\t", "  ")))
	if err != nil {
		t.Fatal(err)
	}
	var o unstructured.Unstructured
	if err := o.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return o.Object
}

// with is an object of which some fields are different: paths have dots.
func with(tree map[string]any, fields map[string]any) map[string]any {
	o := unstructured.Unstructured{Object: tree}
	o = *o.DeepCopy()
	for path, value := range fields {
		keys := strings.Split(path, ".")
		if value == nil {
			unstructured.RemoveNestedField(o.Object, keys...)
			continue
		}
		if err := unstructured.SetNestedField(o.Object, value, keys...); err != nil {
			panic(err)
		}
	}
	return o.Object
}

// annotated is an object whose proof is text.
func annotated(tree map[string]any, text string) map[string]any {
	o := unstructured.Unstructured{Object: tree}
	o = *o.DeepCopy()
	annotations := maps.Clone(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[proof.Annotation] = text
	if text == "" {
		delete(annotations, proof.Annotation)
	}
	o.SetAnnotations(annotations)
	return o.Object
}

func proofOf(tree map[string]any) string {
	o := unstructured.Unstructured{Object: tree}
	return o.GetAnnotations()[proof.Annotation]
}

// put writes an object in place of the old one, which may be nil, and returns what is stored;
// nil if somebody refuses.
func (p *proving) put(user string, old, written map[string]any) (stored map[string]any, message string) {
	p.t.Helper()
	d := p.decide(usher.Mutate, user, old, written)
	if d.Verdict == usher.Deny {
		return nil, d.Message
	}
	stored, _, err := jsonpatch.Apply(written, d.Patch)
	if err != nil {
		p.t.Fatal(err)
	}
	if p.later != nil {
		o := unstructured.Unstructured{Object: stored}
		stored = o.DeepCopy().Object
		p.later(stored)
	}
	if d = p.decide(usher.Validate, user, old, stored); d.Verdict == usher.Deny {
		return nil, d.Message
	}
	return stored, ""
}

func (p *proving) decide(phase usher.Phase, user string, old, written map[string]any) usher.Decision {
	p.t.Helper()
	r := &usher.Request{
		Phase: phase, Operation: usher.Create, User: usher.User{Name: user}, Trusted: !p.untrusted,
		Object: usher.TreeObject(written), OldObject: usher.TreeObject(old),
	}
	if old != nil {
		r.Operation = usher.Update
	}
	o := unstructured.Unstructured{Object: written}
	r.Kind, r.Name, r.Namespace = schema.FromAPIVersionAndKind(o.GetAPIVersion(), o.GetKind()), o.GetName(), o.GetNamespace()
	d, err := p.guard.Decide(p.t.Context(), r)
	if err != nil {
		p.t.Fatal(err)
	}
	return d
}

func (p *proving) state(tree map[string]any) api.ProofState {
	p.t.Helper()
	raw, err := (&unstructured.Unstructured{Object: tree}).MarshalJSON()
	if err != nil {
		p.t.Fatal(err)
	}
	policy, err := api.Decode(raw)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.prover.Check(policy.Object).State
}

// TestProofs writes policies in every way. Nothing is stored with a proof without the right, and
// other writers are not affected.
func TestProofs(t *testing.T) {
	t.Parallel()
	p := newProving(t)
	plain := object(t, grant)
	proven, message := p.put("admin", nil, plain)
	if message != "" || p.state(proven) != api.Proven {
		t.Fatalf("the first policy is %v: %s", proven, message)
	}
	wider := func(tree map[string]any) map[string]any {
		return with(tree, map[string]any{"spec.subjects": []any{map[string]any{"users": []any{"*"}}}})
	}
	label := func(tree map[string]any) map[string]any {
		return with(tree, map[string]any{"metadata.labels": map[string]any{"a": "b"}})
	}
	unproven := plain
	for _, row := range []struct {
		reason, user string
		old, written map[string]any
		// message is why it is refused; if it is not, state is what is stored, and asked
		// whether rights are asked about.
		message string
		state   api.ProofState
		asked   bool
	}{
		{"a policy beyond her rights", "mallory", nil, plain, "permission to get pods in shop", "", true},
		{"with the proof of another policy", "mallory", nil, with(proven, map[string]any{"metadata.name": "q"}), "permission to", "", true},
		{"with its own proof, after it was deleted", "mallory", nil, proven, "permission to", "", true},
		{"copied into another namespace", "mallory", nil, with(proven, map[string]any{"metadata.namespace": "bank"}), "permission to", "", true},
		{"made wider", "mallory", proven, wider(proven), "permission to", "", true},
		{"made wider, without the annotation", "mallory", proven, annotated(wider(proven), ""), "permission to", "", true},
		{"rolled back to what was proven once", "mallory", wider(plain), proven, "permission to", "", true},
		{"a label", "mallory", proven, label(proven), "", api.Proven, false},
		{"a label, by a client that drops annotations", "mallory", proven, annotated(label(proven), ""), "", api.Proven, false},
		{"a forged annotation", "mallory", proven, annotated(proven, "v1.x.y"), "", api.Proven, false},
		{"the word for adoption where nothing is to adopt", "mallory", proven, annotated(proven, "adopt"), "", api.Proven, false},
		{"defaults that an API server fills in", "mallory", proven, with(proven, map[string]any{"spec.enforcement": "Enforce"}), "", api.Proven, false},

		{"a label on what is unproven, by who may everything", "robot", unproven, label(unproven), "", api.Unproven, false},
		{"a proof of once, put on what is unproven", "robot", unproven, proven, "", api.Unproven, false},
		{"what is unproven, written again as it is", "admin", unproven, unproven, "", api.Unproven, false},
		{"adopted by who may not", "mallory", unproven, annotated(unproven, "adopt"), "to adopt a policy needs permission to escalate authorizationpolicies.usher.dev p in shop, which mallory does not have", "", true},
		{"adopted", "admin", unproven, annotated(unproven, "adopt"), "", api.Proven, true},
		{"adopted, where somebody left the word before", "admin", annotated(unproven, "adopt"), annotated(unproven, "adopt again"), "", api.Proven, true},
		{"a label, where somebody left the word before", "robot", annotated(unproven, "adopt"), annotated(label(unproven), "adopt"), "", api.Unproven, false},
		{"changed by who may", "admin", unproven, wider(unproven), "", api.Proven, true},
		{"a finalizer, removed from what is unproven", "mallory", with(unproven, map[string]any{"metadata.finalizers": []any{"x/y"}}), unproven, "", api.Unproven, false},
	} {
		p.asked = 0
		stored, message := p.put(row.user, row.old, row.written)
		if !strings.Contains(message, row.message) || (row.message == "") != (message == "") {
			t.Errorf("%s: %q, want %q", row.reason, message, row.message)
			continue
		}
		if message == "" && p.state(stored) != row.state {
			t.Errorf("%s: %s, want %s", row.reason, p.state(stored), row.state)
		}
		if (p.asked > 0) != row.asked {
			t.Errorf("%s: rights were asked %d times", row.reason, p.asked)
		}
	}
}

func TestNamesAreNotGenerated(t *testing.T) {
	t.Parallel()
	p := newProving(t)
	nameless := with(object(t, grant), map[string]any{"metadata.name": nil, "metadata.generateName": "p-"})
	if _, message := p.put("admin", nil, nameless); message != "AuthorizationPolicy: metadata.generateName is not for policies of this kind, which are proven under their name: set metadata.name" {
		t.Errorf("message is %q", message)
	}
	named := with(nameless, map[string]any{"metadata.name": "p-1"})
	if stored, message := p.put("admin", nil, named); message != "" || p.state(stored) != api.Proven {
		t.Errorf("a policy with both: %q", message)
	}
	for _, kind := range []string{"ClusterOverridePolicy", "ClusterValidatePolicy"} {
		rules := map[string]string{"ClusterOverridePolicy": "overrideRules", "ClusterValidatePolicy": "validateRules"}[kind]
		free := object(t, `{apiVersion: policy.kcloudlabs.io/v1alpha1, kind: `+kind+`, metadata: {generateName: p-}, spec: {`+rules+`: []}}`)
		if stored, message := p.put("mallory", nil, free); message != "" || proofOf(stored) != "" {
			t.Errorf("%s, which needs no proof: %q", kind, message)
		}
	}
}

// TestWebhooksAfterTheGuard change what has been proven.
func TestWebhooksAfterTheGuard(t *testing.T) {
	t.Parallel()
	p := newProving(t)
	plain := object(t, grant)
	proven, _ := p.put("admin", nil, plain)
	const alone = "has to leave policies alone"
	for _, row := range []struct {
		reason string
		old    map[string]any
		later  map[string]any
		want   string
	}{
		{"the spec of a new policy", nil, map[string]any{"spec.message": "x"}, "its proof is for something else: another spec, name or namespace; what wrote it after Usher, such as another webhook, " + alone},
		{"the spec of a policy that is not changed", proven, map[string]any{"spec.message": "x"}, alone},
		{"annotations of a new policy", nil, map[string]any{"metadata.annotations": map[string]any{}}, "as Usher was not asked to mutate it"},
		{"annotations of a policy that is not changed", proven, map[string]any{"metadata.annotations": map[string]any{}}, alone},
		{"annotations of a policy that goes", with(proven, map[string]any{"metadata.deletionTimestamp": "2030-01-01T00:00:00Z"}), map[string]any{"metadata.annotations": map[string]any{}}, ""},
		{"labels", proven, map[string]any{"metadata.labels": map[string]any{"a": "b"}}, ""},
	} {
		p.later = func(tree map[string]any) { maps.Copy(tree, with(tree, row.later)) }
		written := plain
		if row.old != nil {
			written = with(row.old, map[string]any{"metadata.finalizers": []any{}})
		}
		_, message := p.put("admin", row.old, written)
		if !strings.Contains(message, row.want) || (message == "") != (row.want == "") {
			t.Errorf("%s: %q, want %q", row.reason, message, row.want)
		}
	}
}

// TestOnlyTrustedCallersGetProofs: anybody else could make up reviews.
func TestOnlyTrustedCallersGetProofs(t *testing.T) {
	t.Parallel()
	p := newProving(t)
	plain := object(t, grant)
	proven, _ := p.put("admin", nil, plain)
	p.untrusted = true
	for _, row := range []struct {
		reason       string
		old, written map[string]any
	}{
		{"a new policy", nil, plain},
		{"another spec", proven, with(proven, map[string]any{"spec.message": "x"})},
		{"a policy to adopt", plain, annotated(plain, "adopt")},
	} {
		if d := p.decide(usher.Mutate, "admin", row.old, row.written); strings.Contains(proofOfPatch(d), "v1.") {
			t.Errorf("%s: a proof was made", row.reason)
		}
		if _, message := p.put("admin", row.old, row.written); !strings.Contains(message, "proves policies only for API servers that prove who they are") {
			t.Errorf("%s: %q", row.reason, message)
		}
	}
	if stored, message := p.put("admin", proven, annotated(proven, "")); message != "" || p.state(stored) != api.Proven {
		t.Errorf("the proof of a policy that does not change: %q", message)
	}
}

func proofOfPatch(d usher.Decision) string {
	for _, op := range d.Patch {
		if text, ok := op.Value.(string); ok && strings.Contains(op.Path, "proof") {
			return text
		}
		if annotations, ok := op.Value.(map[string]any); ok && annotations[proof.Annotation] != nil {
			return annotations[proof.Annotation].(string)
		}
	}
	return ""
}

// TestPoliciesAreProvenAsTheyAreStored: with what templates come to, and with what other
// policies make of them.
func TestPoliciesAreProvenAsTheyAreStored(t *testing.T) {
	t.Parallel()
	p := newProving(t)
	rendered := object(t, `{apiVersion: policy.kcloudlabs.io/v1alpha1, kind: OverridePolicy, metadata: {name: p, namespace: shop, annotations: {x: z}}, spec: {
	resourceSelectors: [{apiVersion: v1, kind: ConfigMap}], overrideRules: [{overriders: {template: {type: labels, operation: add, path: a, value: {string: b}}}}]}}`)
	if stored, message := p.put("admin", nil, rendered); message != "" || p.state(stored) != api.Proven {
		t.Errorf("a policy with a template: %q", message)
	}
	p.guard = guard.Wrap(usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
		if r.Phase == usher.Validate {
			return usher.Allowed(), nil
		}
		return usher.Patched(usher.PatchOp{Op: "add", Path: "/spec/message", Value: "ask the platform team"}), nil
	}), guard.Options{Proofs: p.prover, May: p.may})
	stored, message := p.put("admin", nil, object(t, grant))
	if message != "" || p.state(stored) != api.Proven || stored["spec"].(map[string]any)["message"] == nil {
		t.Errorf("a policy that other policies change: %q", message)
	}
}

// TestProofsFollowTheKey: what was proven by the key before gets a proof by the current one when it
// is next written, by any user.
func TestProofsFollowTheKey(t *testing.T) {
	t.Parallel()
	p := newProving(t)
	proven, _ := p.put("admin", nil, object(t, grant))
	p.keys(2, 1)
	renewed, message := p.put("mallory", proven, with(proven, map[string]any{"metadata.labels": map[string]any{"a": "b"}}))
	if message != "" || proofOf(renewed) == proofOf(proven) {
		t.Errorf("the proof is %s, and was %s: %q", proofOf(renewed), proofOf(proven), message)
	}
	p.keys(2)
	if p.state(renewed) != api.Proven || p.state(proven) != api.Unproven {
		t.Errorf("without the key before: %s by the new key, %s by that one", p.state(renewed), p.state(proven))
	}
	again, _ := p.put("mallory", renewed, annotated(renewed, ""))
	if proofOf(again) != proofOf(renewed) {
		t.Error("a proof changes without a reason: field managers would quarrel")
	}
}

// TestWhatCannotBeReadHasNoProof: nobody is kept from removing a finalizer of it.
func TestWhatCannotBeReadHasNoProof(t *testing.T) {
	t.Parallel()
	p := newProving(t)
	broken := with(object(t, grant), map[string]any{"spec": map[string]any{"rules": "all"}, "metadata.finalizers": []any{"x/y"}})
	if _, message := p.put("mallory", broken, with(broken, map[string]any{"metadata.finalizers": nil})); message != "" {
		t.Error(message)
	}
	if _, message := p.put("admin", nil, broken); !strings.Contains(message, "cannot be read") {
		t.Error(message)
	}
}

// TestWhoMayConfirm: when a Deny ends is part of what it says, although annotations say it.
func TestWhoMayConfirm(t *testing.T) {
	t.Parallel()
	const since, confirmed = "usher.dev/since", "usher.dev/confirmed"
	for _, row := range []struct {
		reason  string
		user    string
		change  map[string]any
		message string
	}{
		{"confirmed by a user who may write it", "admin", map[string]any{since: "2026-01-02T03:00:00Z", confirmed: "1"}, ""},
		{"confirmed by mallory", "mallory", map[string]any{since: "2026-01-02T03:00:00Z", confirmed: "1"}, "say when it ends: the tier platform needs permission to use"},
		{"ended by mallory", "mallory", map[string]any{since: "2020-01-02T03:00:00Z"}, "say when it ends: the tier platform needs permission to use"},
		{"the time of the change removed by mallory", "mallory", map[string]any{}, "say when it ends: the tier platform needs permission to use"},
		{"something else by mallory", "mallory", map[string]any{since: "2026-01-02T03:00:00Z", "note": "x"}, ""},
	} {
		p := newProving(t)
		deny := object(t, `{apiVersion: usher.dev/v1alpha1, kind: ClusterAuthorizationPolicy, metadata: {name: p, generation: 1}, spec: {
	effect: Deny, tier: platform, confirmWithin: 10m, subjects: [{users: [jane]}], rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]}}`)
		stored, message := p.put("admin", nil, deny)
		if message != "" {
			t.Fatal(message)
		}
		proven := proofOf(stored)
		stored = annotated(with(stored, map[string]any{"metadata.annotations": map[string]any{since: "2026-01-02T03:00:00Z"}}), proven)
		written := annotated(with(stored, map[string]any{"metadata.annotations": row.change}), proven)
		if _, message := p.put(row.user, stored, written); !strings.Contains(message, row.message) || row.message == "" && message != "" {
			t.Errorf("%s: %q, want %q", row.reason, message, row.message)
		}
		terminating := with(stored, map[string]any{"metadata.deletionTimestamp": "2026-01-02T03:00:00Z", "metadata.annotations": nil})
		if _, message := p.put("mallory", stored, terminating); message != "" {
			t.Errorf("%s: what is being deleted: %s", row.reason, message)
		}
	}
}
