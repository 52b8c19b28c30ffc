package check_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/check"
	"github.com/usher-dev/usher/internal/compile/bounded"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/trial"
	"github.com/usher-dev/usher/source/dir"
)

// TestSessionFindsWhatIsFoundAtOnce: a session reports for each of several texts in turn what a session
// without any before it reports.
func TestSessionFindsWhatIsFoundAtOnce(t *testing.T) {
	t.Parallel()
	const (
		a = "apiVersion: usher.dev/v1alpha1\nkind: ClusterObjectPolicy\nmetadata: {name: a}\nspec:\n" +
			"  matchConstraints: {resourceRules: [{apiGroups: [\"\"], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}\n" +
			"  validations:\n  - expression: object.spec.hostNetwrk == true\n  bindings: [{name: all}]\n"
		b = "apiVersion: policy.kcloudlabs.io/v1alpha1\nkind: ClusterValidatePolicy\nmetadata: {name: b}\nspec: {validateRules: [{}], typo: 1}\n"
	)
	tries := trial.New(trial.Options{})
	session := check.NewSession(bounded.Compiler{}, tries)
	for _, test := range []struct{ reason, text string }{
		{"two policies with mistakes", a + "---\n" + b},
		{"the same, further down", "# a line\n\n" + a + "---\n" + b},
		{"the other order", b + "---\n" + a},
		{"one is corrected", strings.Replace(a, "hostNetwrk", "hostNetwork", 1) + "---\n" + b},
		{"one is written twice", a + "---\n" + a},
		{"a field is written twice", a + "  failurePolicy: Fail\n  failurePolicy: Fail\n"},
		{"nothing can be read", "kind: [\n"},
		{"as at first", a + "---\n" + b},
		{"nothing", ""},
	} {
		set := dir.Parse("a.yaml", []byte(test.text))
		got, err := session.Check(t.Context(), set)
		if err != nil {
			t.Fatal(err)
		}
		want, err := check.NewSession(bounded.Compiler{}, tries).Check(t.Context(), set)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -at once +in a session:\n%s", test.reason, diff)
		}
		if test.text != "" && len(rule.Errors(got)) == 0 && !strings.Contains(test.reason, "corrected") {
			t.Errorf("%s: nothing is wrong: %v", test.reason, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := session.Check(ctx, dir.Parse("a.yaml", []byte(a))); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
