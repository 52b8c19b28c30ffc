package guard_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile/guard"
)

const labelling = `{apiVersion: policy.kcloudlabs.io/v1alpha1, kind: OverridePolicy, metadata: {name: p, namespace: shop}, spec: {
	resourceSelectors: [{apiVersion: v1, kind: Pod}], overrideRules: [{overriders: {plaintext: [{op: add, path: /metadata/labels/a, value: b}]}}]}}`

// suspended is an object that is suspended, in the way of its kind.
func suspended(tree map[string]any, yes bool) map[string]any {
	o := unstructured.Unstructured{Object: tree}
	o = *o.DeepCopy()
	if o.GetKind() != "OverridePolicy" {
		return with(o.Object, map[string]any{"spec.suspend": yes})
	}
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations["usher.dev/suspend"] = "true"
	if !yes {
		delete(annotations, "usher.dev/suspend")
	}
	o.SetAnnotations(annotations)
	return o.Object
}

// TestSuspendingNeedsNoRights: who may write policies may suspend one. Only who has the rights of the
// policy puts it into force again, and a proof that was made while it was suspended is not one then.
func TestSuspendingNeedsNoRights(t *testing.T) {
	t.Parallel()
	for _, text := range []string{grant, labelling} {
		p := newProving(t)
		stored, message := p.put("admin", nil, object(t, text))
		if stored == nil {
			t.Fatal(message)
		}
		off, message := p.put("mallory", stored, suspended(stored, true))
		if off == nil {
			t.Fatalf("suspending is refused: %s", message)
		}
		if on, _ := p.put("mallory", off, suspended(off, false)); on != nil {
			t.Error("who may nothing puts it into force again")
		}
		if p.state(suspended(off, false)) == api.Proven {
			t.Error("the proof of the suspended policy proves the one in force")
		}
		on, message := p.put("admin", off, suspended(off, false))
		if on == nil {
			t.Fatalf("who has the rights cannot put it into force: %s", message)
		}
		if got := p.state(on); got != api.Proven {
			t.Errorf("in force again, it is %s", got)
		}
	}
}

// TestWhoSuspended: the annotation that says who has suspended a policy is Usher's.
func TestWhoSuspended(t *testing.T) {
	t.Parallel()
	g := guard.Wrap(usher.DeciderFunc(allow), guard.Options{Now: func() time.Time { return time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC) }})
	p := newProving(t)
	p.guard = g
	who := func(tree map[string]any) string {
		return (&unstructured.Unstructured{Object: tree}).GetAnnotations()["usher.dev/suspended"]
	}
	forged := func(tree map[string]any, by string) map[string]any {
		o := unstructured.Unstructured{Object: tree}
		o = *o.DeepCopy()
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations["usher.dev/suspended"] = by
		o.SetAnnotations(annotations)
		return o.Object
	}
	active := object(t, grant)
	const jane = "jane at 2030-01-02T03:04:05Z"
	var stored map[string]any
	for _, step := range []struct {
		reason, user string
		written      map[string]any
		want         string
	}{
		{"a policy in force has none", "jane", active, ""},
		{"nor if somebody writes one", "jane", forged(active, "mallory"), ""},
		{"who suspends it is recorded", "jane", forged(suspended(active, true), "mallory"), jane},
		{"and stays, when another user writes it again", "mallory", suspended(active, true), jane},
		{"or changes only the annotation", "mallory", forged(suspended(active, true), "jim"), jane},
		{"until it is in force again", "mallory", forged(suspended(active, false), jane), ""},
	} {
		got, message := p.put(step.user, stored, step.written)
		if got == nil {
			t.Fatalf("%s: refused: %s", step.reason, message)
		}
		if who(got) != step.want {
			t.Errorf("%s: got %q, want %q", step.reason, who(got), step.want)
		}
		stored = got
	}
}

// TestPoliciesWithErrorsCanBeSuspended: a stored policy that a newer version refuses can be turned off.
func TestPoliciesWithErrorsCanBeSuspended(t *testing.T) {
	t.Parallel()
	g := guard.Wrap(usher.DeciderFunc(allow), guard.Options{})
	const broken = "{effect: Deny, subjects: [{users: [jane]}], when: [{cel: 'nonsense('}], rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]"
	old := write(t, "ClusterAuthorizationPolicy", broken+"}")
	for _, test := range []struct {
		reason, spec string
		denied       bool
	}{
		{"in force", broken + ", message: m}", true},
		{"suspended", broken + ", suspend: true}", false},
	} {
		r := write(t, "ClusterAuthorizationPolicy", test.spec)
		r.Operation, r.OldObject = usher.Update, old.Object
		d, err := g.Decide(t.Context(), r)
		if err != nil || (d.Verdict == usher.Deny) != test.denied {
			t.Errorf("%s: %s %q, %v", test.reason, d.Verdict, d.Message, err)
		}
		if warnings := strings.Join(d.Warnings, "\n"); !test.denied && (!strings.Contains(warnings, "the policy is suspended") || !strings.Contains(warnings, "when[0]")) {
			t.Errorf("%s: the warnings do not say that it is suspended, and what is wrong: %s", test.reason, warnings)
		}
	}
}

// TestSuspendingIsNotDenied: no policy keeps a policy from being suspended, the one itself among them. Other
// changes along with it are judged, and what is refused is not said to be suspended.
func TestSuspendingIsNotDenied(t *testing.T) {
	t.Parallel()
	frozen := func(context.Context, *usher.Request) (usher.Decision, error) { return usher.Denied("frozen"), nil }
	for _, text := range []string{grant, labelling} {
		p := newProving(t)
		stored, message := p.put("admin", nil, object(t, text))
		if stored == nil {
			t.Fatal(message)
		}
		p.guard = guard.Wrap(usher.DeciderFunc(frozen), guard.Options{})
		off := suspended(stored, true)
		if got, message := p.put("mallory", stored, off); got == nil {
			t.Errorf("suspending is refused: %s", message)
		}
		for _, row := range []struct {
			reason   string
			old, new map[string]any
		}{
			{"another change", stored, with(off, map[string]any{"metadata.labels": map[string]any{"a": "b"}})},
			{"another annotation", stored, with(off, map[string]any{"metadata.annotations": map[string]any{"usher.dev/suspend": "true", "a": "b"}, "spec.suspend": true})},
			{"it is put into force again", off, stored},
			{"it is created", nil, off},
		} {
			if got, _ := p.put("mallory", row.old, row.new); got != nil {
				t.Errorf("%s: not judged", row.reason)
			}
			if row.old == nil {
				continue
			}
			const help = "what is never refused is to set "
			if d := p.decide(usher.Validate, "mallory", row.old, row.new); !strings.Contains(strings.Join(d.Warnings, "\n"), help) {
				t.Errorf("%s: nobody is told how to suspend it: %q", row.reason, d.Warnings)
			}
		}
		r := &usher.Request{
			Phase: usher.Validate, Operation: usher.Create, User: usher.User{Name: "jane"}, Kind: (&unstructured.Unstructured{Object: off}).GroupVersionKind(),
			Object: usher.TreeObject(off),
		}
		d, err := p.guard.Decide(t.Context(), r)
		if err != nil || d.Verdict != usher.Deny || strings.Contains(strings.Join(d.Warnings, ""), "is suspended") {
			t.Errorf("%v: %s, warnings %q", err, d.Verdict, d.Warnings)
		}
	}
}

// TestErrorsOfSuspendedPoliciesAreSaid: a suspended policy that needs a proof is written with errors as others are, by
// who may nothing, and is not put into force with them.
func TestErrorsOfSuspendedPoliciesAreSaid(t *testing.T) {
	t.Parallel()
	p := newProving(t)
	stored, message := p.put("alice", nil, suspended(object(t, labelling), true))
	if message != "" {
		t.Fatal(message)
	}
	broken := with(stored, map[string]any{"spec.overrideRules": []any{map[string]any{"overriders": map[string]any{"cue": "nonsense: ("}}}})
	off, message := p.put("alice", stored, broken)
	if off == nil {
		t.Fatalf("an edit with an error is refused: %s", message)
	}
	const said = "cannot be put into force again: spec.overrideRules[0].overriders.cue: "
	if d := p.decide(usher.Validate, "alice", stored, off); !strings.Contains(strings.Join(d.Warnings, "\n"), said) {
		t.Errorf("warnings %q, want %q", d.Warnings, said)
	}
	for _, user := range []string{"alice", "admin"} {
		if on, message := p.put(user, off, suspended(off, false)); on != nil || !strings.Contains(message, "spec.overrideRules[0].overriders.cue") {
			t.Errorf("%s puts it into force: %q", user, message)
		}
	}
}

// TestWhoBelievesThatItIsSuspendedIsWarned: the annotation that does not suspend a policy is removed, and not in silence.
func TestWhoBelievesThatItIsSuspendedIsWarned(t *testing.T) {
	t.Parallel()
	p := newProving(t)
	active := object(t, grant)
	with := (&unstructured.Unstructured{Object: object(t, grant)}).DeepCopy()
	with.SetAnnotations(map[string]string{"usher.dev/suspended": "true"})
	for _, row := range []struct {
		reason       string
		old, written map[string]any
		warned       bool
	}{
		{"created", nil, with.Object, true},
		{"updated", active, with.Object, true},
		{"nothing is written", active, active, false},
		{"in force again, with what Usher wrote", suspended(with.Object, true), with.Object, false},
		{"suspended", active, suspended(with.Object, true), false},
	} {
		d := p.decide(usher.Mutate, "jane", row.old, row.written)
		const want = "metadata.annotations[usher.dev/suspended]: it does not suspend the policy, which is in force (did you mean spec.suspend?)"
		if got := slices.Contains(d.Warnings, want); got != row.warned {
			t.Errorf("%s: warnings %q, want the warning: %t", row.reason, d.Warnings, row.warned)
		}
	}
}

// TestTheAnnotationOfOtherKinds: it does not suspend a policy of Usher's own, refuses no change of it, and everyone who
// writes the policy is told, with what removes it.
func TestTheAnnotationOfOtherKinds(t *testing.T) {
	t.Parallel()
	active := object(t, grant)
	annotated := with(active, map[string]any{"metadata.annotations": map[string]any{"usher.dev/suspend": "true"}})
	edited := with(annotated, map[string]any{"metadata.labels": map[string]any{"a": "b"}, "spec.subjects": []any{map[string]any{"users": []any{"jim"}}}})
	const what, remove = "metadata.annotations[usher.dev/suspend]: it suspends policies of kinitiras, and not this one (", "remove the annotation: kubectl annotate authorizationpolicy p -n shop usher.dev/suspend-)"
	for _, row := range []struct {
		reason       string
		old, written map[string]any
		do           string
	}{
		{"only the annotation is written", active, annotated, "set spec.suspend, and "},
		{"created", nil, annotated, "set spec.suspend, and "},
		{"the spec changes", annotated, edited, "set spec.suspend, and "},
		{"the policy is suspended", annotated, suspended(annotated, true), ""},
		{"only the annotation of a suspended policy is written", suspended(active, true), suspended(annotated, true), ""},
	} {
		p := newProving(t)
		stored, message := p.put("admin", row.old, row.written)
		if stored == nil {
			t.Errorf("%s: refused: %s", row.reason, message)
			continue
		}
		d := p.decide(usher.Validate, "admin", row.old, stored)
		if want := what + row.do + remove; !slices.Contains(d.Warnings, want) {
			t.Errorf("%s: warnings %q, want %q", row.reason, d.Warnings, want)
		}
	}
}
