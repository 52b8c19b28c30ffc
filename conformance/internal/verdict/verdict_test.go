package verdict_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/conformance/internal/spec"
	"github.com/usher-dev/usher/conformance/internal/verdict"
)

var (
	mutates   = spec.Spec{Name: "AdmissionWebhook should mutate configmap", Location: "webhook.go:249"}
	discovers = spec.Spec{Name: "AdmissionWebhook should include webhook resources in discovery documents", Location: "webhook.go:118"}
)

func TestCheckNamesWhatDiffers(t *testing.T) {
	t.Parallel()
	err := verdict.Check([]spec.Spec{mutates, discovers, {Name: "AdmissionWebhook should be fast"}})
	if err == nil {
		t.Fatal("a suite with other specs passes for the known one")
	}
	for _, want := range []string{`new are ["AdmissionWebhook should be fast"]`, `"AdmissionWebhook should honor timeout"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not have %q", err, want)
		}
	}
	if strings.Contains(err.Error(), mutates.Name+`"`) {
		t.Errorf("error %q names a spec that is there", err)
	}
}

func TestStandards(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		standard verdict.Standard
		spec     spec.Spec
		state    spec.State
		met      bool
		reason   string
	}{
		{"right and passed", verdict.Conformant, mutates, spec.Passed, true, "everything has to pass"},
		{"right and failed", verdict.Conformant, mutates, spec.Failed, false, "everything has to pass"},
		{"right and skipped", verdict.Conformant, discovers, "skipped", false, "skipped is not passed"},
		{"indifferent and passed", verdict.Indifferent, mutates, spec.Passed, false, "the spec depends on the answer"},
		{"indifferent and failed", verdict.Indifferent, mutates, spec.Failed, true, "the spec depends on the answer"},
		{"indifferent and interrupted", verdict.Indifferent, mutates, "interrupted", false, "interrupted is not failed"},
		{"not asked and passed", verdict.Indifferent, discovers, spec.Passed, true, "the API server alone decides"},
		{"not asked and failed", verdict.Indifferent, discovers, spec.Failed, false, "the harness is broken"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := test.standard.Met(spec.Result{Spec: test.spec, State: test.state}); got != test.met {
				t.Errorf("met is %t, want %t: %s", got, test.met, test.reason)
			}
		})
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	passed := func(s spec.Spec) spec.Result {
		return spec.Result{Spec: s, State: spec.Passed, Seconds: 2.34, Log: "specs/a.log"}
	}
	failed := func(s spec.Spec) spec.Result {
		return spec.Result{Spec: s, State: spec.Failed, Seconds: 32, Problem: "stage 1 is missing\nin the data", At: "webhook.go:1285", Log: "specs/b.log"}
	}
	tests := []struct {
		name     string
		standard verdict.Standard
		results  []spec.Result
		met      bool
		want     string
	}{
		{"as it has to be", verdict.Conformant, []spec.Result{passed(mutates), passed(discovers)}, true, `usher: the sample webhooks
  pass    2.3 s  AdmissionWebhook should mutate configmap
  pass    2.3 s  AdmissionWebhook should include webhook resources in discovery documents
usher: 2 of 2 pass, and 2 have to: as it has to be (61 s)

`},
		{"a failure", verdict.Conformant, []spec.Result{failed(mutates), passed(discovers)}, false, `usher: the sample webhooks
  FAIL   32.0 s  AdmissionWebhook should mutate configmap: failed
       webhook.go:1285, in the spec at webhook.go:249:
         stage 1 is missing
         in the data
       see specs/b.log
       see servers/a.log
  pass    2.3 s  AdmissionWebhook should include webhook resources in discovery documents
usher: 1 of 2 pass, and 2 have to: WRONG for 1 (61 s)

`},
		{"the control", verdict.Indifferent, []spec.Result{failed(mutates), passed(discovers)}, true, `usher: the sample webhooks
  ok     32.0 s  AdmissionWebhook should mutate configmap: fails, as it has to (webhook.go:1285)
  pass    2.3 s  AdmissionWebhook should include webhook resources in discovery documents
usher: 1 of 2 pass, and 1 have to: as it has to be (61 s)

`},
		{"a control that passes", verdict.Indifferent, []spec.Result{passed(mutates), passed(discovers)}, false, `usher: the sample webhooks
  FAIL    2.3 s  AdmissionWebhook should mutate configmap: passes, and must not: it cannot tell this server from a right one
       see specs/a.log
       see servers/a.log
  pass    2.3 s  AdmissionWebhook should include webhook resources in discovery documents
usher: 2 of 2 pass, and 1 have to: WRONG for 1 (61 s)

`},
		{"a spec without result", verdict.Conformant, []spec.Result{passed(mutates)}, false, `usher: the sample webhooks
  pass    2.3 s  AdmissionWebhook should mutate configmap
usher: 1 of 2 pass, and 2 have to: WRONG for 1 (61 s)

`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			entrant := verdict.Entrant{Name: "usher", About: "the sample webhooks", Standard: test.standard}
			report := verdict.NewReport(&out, entrant, []spec.Spec{mutates, discovers})
			for _, result := range test.results {
				report.Add(result, []string{"servers/a.log"})
			}
			if met := report.End(61 * time.Second); met != test.met {
				t.Errorf("met is %t, want %t", met, test.met)
			}
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}
