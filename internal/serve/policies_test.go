package serve_test

import (
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/usher-dev/usher/internal/serve"
)

var (
	admissionPolicies = admissionv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies")
	admissionBindings = admissionv1.SchemeGroupVersion.WithResource("validatingadmissionpolicybindings")
)

const (
	noPods = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-pods}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "false", message: no pods}]
`
	noPodsBinding = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-pods}
spec: {policyName: no-pods, validationActions: [Deny]}
`
)

// verdict is the answer to a review of a pod, by the webhook of the phase validate.
func (h *harness) verdict(path string) string {
	h.t.Helper()
	body, response := h.post(path, read(h.t, reviews+"v1-create-pods.json"))
	switch {
	case response == nil || response.StatusCode != http.StatusOK:
		return "no answer"
	case strings.Contains(body, `"allowed":true`):
		return "allowed"
	}
	return body
}

// TestAdmissionPoliciesOfTheCluster is about those that the API server has.
func TestAdmissionPoliciesOfTheCluster(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		mode    serve.AdmissionPolicies
		denied  bool
		verbose []string
		metrics string
	}{
		{
			"", false,
			[]string{
				"admission policies of the API server: enforced by itself\n", "  ValidatingAdmissionPolicy: 1, in v1\n", "  ValidatingAdmissionPolicyBinding: 1, in v1\n",
				"problems: 0\n",
			},
			`usher_snapshot_known_policies{kind="ValidatingAdmissionPolicy"} 1`,
		},
		{
			serve.EnforceAdmissionPolicies, true,
			[]string{"admission policies of the API server: enforced here\n", "  ValidatingAdmissionPolicy: in v1\n", "policies: generation ", "  ValidatingAdmissionPolicy: 1\n"},
			`usher_snapshot_policies{kind="ValidatingAdmissionPolicy"} 1`,
		},
		{serve.IgnoreAdmissionPolicies, false, []string{"admission policies of the API server: not read\n"}, "usher_snapshot_rules 1"},
	} {
		t.Run(string(test.mode), func(t *testing.T) {
			t.Parallel()
			f := newFakeCluster()
			f.apply(t, overrides, label("one"))
			f.apply(t, admissionPolicies, noPods)
			f.apply(t, admissionBindings, noPodsBinding)
			f.config.AdmissionPolicies = test.mode
			h := f.join(t, serve.Config{})
			h.eventually("/readyz?verbose says how they are read", func() bool {
				verbose := h.get("/readyz?verbose")
				for _, want := range test.verbose {
					if !strings.Contains(verbose, want) {
						return false
					}
				}
				return true
			})
			// What no policy in force is for is not sent, and not answered.
			if got := h.verdict(f.path(t, "validate")); strings.Contains(got, "no pods") != test.denied || (got == "no answer") == test.denied {
				t.Errorf("answered %q, want a denial: %t", got, test.denied)
			}
			if got := h.metrics(); !strings.Contains(got, test.metrics) {
				t.Errorf("metrics have no %s:\n%s", test.metrics, got)
			}
		})
	}
}

// TestNobodyDecidesTwice: a policy that is in files and in the cluster is told of.
func TestNobodyDecidesTwice(t *testing.T) {
	t.Parallel()
	f := newFakeCluster()
	policies := t.TempDir()
	write(t, filepath.Join(policies, "pods.yaml"), noPods+"---\n"+noPodsBinding)
	f.apply(t, overrides, label("one"))
	f.apply(t, admissionPolicies, noPods)
	h := f.join(t, serve.Config{Policies: []string{policies}})
	h.eventually("the policy of the cluster is known", func() bool {
		return strings.Contains(h.get("/readyz?verbose"), "ValidatingAdmissionPolicy: 1, in v1\n")
	})
	if verbose := h.get("/readyz?verbose"); !strings.Contains(verbose, "problems: 0\n") {
		t.Errorf("there are problems, although nothing puts the policy of the cluster into force:\n%s", verbose)
	}
	f.apply(t, admissionBindings, strings.ReplaceAll(noPodsBinding, "{name: no-pods}", "{name: elsewhere}"))
	h.eventually("there is a problem", func() bool {
		return strings.Contains(h.get("/readyz?verbose"), "pods.yaml:3: warning: ValidatingAdmissionPolicy no-pods: metadata.name: "+
			"the API server has a ValidatingAdmissionPolicy of this name, too, and enforces it: requests are decided twice; delete that of the cluster, or this one\n")
	})
	if got := h.verdict(f.path(t, "validate")); !strings.Contains(got, "no pods") {
		t.Errorf("answered %q: the policy is in force", got)
	}
}

// TestAnOlderChart: without the right to read admission policies a server works, and says what is
// missing.
func TestAnOlderChart(t *testing.T) {
	t.Parallel()
	f := newFakeCluster()
	f.apply(t, overrides, label("one"))
	f.objects.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if r := action.GetResource(); r.Group == admissionv1.GroupName {
			return true, nil, apierrors.NewForbidden(r.GroupResource(), "", errors.New("no rule"))
		}
		return false, nil, nil
	})
	h := f.join(t, serve.Config{})
	h.eventually("the policy of the cluster is in force", func() bool { return strings.Contains(h.patch(read(t, reviews+"v1-create-pods.json")), `"one"`) })
	h.eventually("/readyz?verbose says what is missing", func() bool {
		return strings.Contains(h.get("/readyz?verbose"), "  ValidatingAdmissionPolicy: Usher may not read them: let Usher get, list and watch them: apply the chart of this version")
	})
	if n := strings.Count(h.log.String(), "admission policies cannot be read"); n == 0 || n > 4 {
		t.Errorf("%d records, want one for each kind:\n%s", n, h.log.String())
	}
	if strings.Contains(h.metrics(), "usher_source_errors 1") {
		t.Error("it counts as an error of the policies")
	}
}

// TestProblemsThatTrialsFindAreCounted: a policy was stored while Usher did not run, and compiles.
func TestProblemsThatTrialsFindAreCounted(t *testing.T) {
	t.Parallel()
	f := newFakeCluster()
	f.apply(t, overrides, label("one"))
	f.apply(t, schema.GroupVersionResource{Group: "usher.dev", Version: "v1alpha1", Resource: "clusterobjectpolicies"}, `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: team}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "object.metdata.name != 'x'"}]
`)
	h := f.join(t, serve.Config{})
	h.eventually("the mistake is counted", func() bool {
		return strings.Contains(h.metrics(), `usher_policy_problems{severity="mistake"} 1`)
	})
	if page := h.get("/readyz?verbose"); !strings.Contains(page, "problems: 1\n") || !strings.Contains(page, "metdata") {
		t.Errorf("/readyz?verbose does not tell the problem:\n%s", page)
	}
}
