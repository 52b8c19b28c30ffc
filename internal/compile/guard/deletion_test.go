package guard_test

import (
	"strings"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/compile/guard"
)

const denyExec = "subjects: [{users: [x]}], rules: [{verbs: [create], apiGroups: [''], resources: [pods/exec]}]}"

func TestOnlyDenialsOfThePlatformAreKeptFromDeletion(t *testing.T) {
	t.Parallel()
	const use = "use authorizationtiers.usher.dev platform"
	for _, test := range []struct {
		reason, kind, spec string
		user               usher.User
		entry              string
		may                []string
		denied             bool
	}{
		{"without the tier", "ClusterAuthorizationPolicy", "{tier: platform, effect: Deny, " + denyExec, usher.User{Name: "jane"}, "validate-deletions", nil, true},
		{"without the tier, in a process", "ClusterAuthorizationPolicy", "{tier: platform, effect: Deny, " + denyExec, usher.User{Name: "jane"}, "", nil, true},
		{"with the tier", "ClusterAuthorizationPolicy", "{tier: platform, effect: Deny, " + denyExec, usher.User{Name: "jane"}, "validate-deletions", []string{use}, false},
		{"of another tier", "ClusterAuthorizationPolicy", "{effect: Deny, " + denyExec, usher.User{Name: "jane"}, "validate-deletions", nil, false},
		{"what allows", "ClusterAuthorizationPolicy", "{tier: platform, effect: Allow, " + denyExec, usher.User{Name: "jane"}, "validate-deletions", nil, false},
		{"by the garbage collector", "ClusterAuthorizationPolicy", "{tier: platform, effect: Deny, " + denyExec, usher.User{Name: "system:serviceaccount:kube-system:generic-garbage-collector"}, "validate-deletions", nil, false},
		{"by those who come last", "ClusterAuthorizationPolicy", "{tier: platform, effect: Deny, " + denyExec, usher.User{Name: "root", Groups: []string{"system:masters"}}, "validate-deletions", nil, false},
		{"what nobody can read", "ClusterAuthorizationPolicy", "{tier: [platform], effect: Deny}", usher.User{Name: "jane"}, "validate-deletions", nil, false},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			w := writer{}
			for _, what := range test.may {
				w[what] = true
			}
			r := write(t, test.kind, test.spec)
			r.Operation, r.User, r.Entry = usher.Delete, test.user, test.entry
			r.Object, r.OldObject = nil, r.Object
			d, err := guard.Wrap(usher.DeciderFunc(allow), guard.Options{May: w.may}).Decide(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if denied := d.Verdict == usher.Deny; denied != test.denied || denied && !strings.Contains(d.Message, "to delete it: the tier platform needs permission to use") {
				t.Errorf("%s %q", d.Verdict, d.Message)
			}
		})
	}
}

// To change what a denial of the platform says, or to suspend it, is to delete it.
func TestDenialsOfThePlatformAreNotChangedAway(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason, spec string
		may          writer
	}{
		{"it is moved to another tier", "{tier: cluster, effect: Deny, " + denyExec, writer{"use authorizationtiers.usher.dev cluster": true}},
		{"it is suspended", "{suspend: true, tier: platform, effect: Deny, " + denyExec, writer{}},
	} {
		old := write(t, "ClusterAuthorizationPolicy", "{tier: platform, effect: Deny, "+denyExec)
		r := write(t, "ClusterAuthorizationPolicy", row.spec)
		r.Operation, r.OldObject = usher.Update, old.Object
		g := guard.Wrap(usher.DeciderFunc(allow), guard.Options{May: row.may.may})
		if d, err := g.Decide(t.Context(), r); err != nil || d.Verdict != usher.Deny || !strings.Contains(d.Message, "authorizationtiers.usher.dev platform") {
			t.Errorf("%s: %s %q, %v", row.reason, d.Verdict, d.Message, err)
		}
		row.may["use authorizationtiers.usher.dev platform"] = true
		if d, err := g.Decide(t.Context(), r); err != nil || d.Verdict == usher.Deny {
			t.Errorf("%s, with the right: %s %q, %v", row.reason, d.Verdict, d.Message, err)
		}
	}
}
