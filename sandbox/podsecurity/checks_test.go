package podsecurity

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	psaapi "k8s.io/pod-security-admission/api"
	psapolicy "k8s.io/pod-security-admission/policy"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/engine"
)

// controls are the policies for checks, by level of the pack.
var controls = map[psapolicy.CheckID][2]string{ //nolint:gochecknoglobals // a table
	"appArmorProfile":            {"app-armor-profile", "app-armor-profile"},
	"capabilities_baseline":      {"capabilities", "capabilities"},
	"capabilities_restricted":    {"", "capabilities"},
	"hostNamespaces":             {"host-namespaces", "host-namespaces"},
	"hostPathVolumes":            {"host-path-volumes", ""},
	"hostPorts":                  {"host-ports", "host-ports"},
	"hostProbesAndHostLifecycle": {"host-probes", "host-probes"},
	"privileged":                 {"privileged", "privileged"},
	"procMount":                  {"proc-mount", "proc-mount"},
	"procMount_restricted":       {"", "proc-mount"},
	"restrictedVolumes":          {"", "volume-types"},
	"seLinuxOptions":             {"se-linux-options", "se-linux-options"},
	"seccompProfile_baseline":    {"seccomp-profile", "seccomp-profile"},
	"seccompProfile_restricted":  {"", "seccomp-profile"},
	"sysctls":                    {"sysctls", "sysctls"},
	"windowsHostProcess":         {"windows-host-process", "windows-host-process"},
	"allowPrivilegeEscalation":   {"", "allow-privilege-escalation"},
	"runAsNonRoot":               {"", "run-as-non-root"},
	"runAsUser":                  {"", "run-as-user"},
}

// A checkQuestion is what a check is asked about a pod: places are those where it is in force.
type checkQuestion struct {
	Test   string
	Places []place
	Pod    *corev1.Pod
}

type place struct {
	Check   psapolicy.CheckID
	Level   psaapi.Level
	Version string
}

// A checkAnswer is what a policy says in place of a check.
type checkAnswer struct {
	Allowed        bool
	Reason, Detail string
}

// TestChecksOfUpstream runs the tests that Kubernetes has for its checks, with policies in place of
// the checks.
func TestChecksOfUpstream(t *testing.T) {
	t.Parallel()
	s := replaced(t, "policy", func(f *ast.FuncDecl) string {
		if !isCheck(f) {
			return ""
		}
		return fmt.Sprintf("\nfunc %[1]s(m *metav1.ObjectMeta, s *corev1.PodSpec) CheckResult { return ask(%[1]q, m, s) }\n", f.Name.Name)
	})
	s.tests = testsIn(t, filepath.Join(s.folder, "check_*_test.go"))
	asked, c := map[string]int{}, &checks{packs: map[place][]api.Policy{}, deciders: map[place]*engine.Engine{}}
	answer := func(question []byte) checkAnswer {
		var q checkQuestion
		if err := json.Unmarshal(question, &q); err != nil {
			t.Fatal(err)
		}
		asked[q.Test]++
		return c.answer(t, &q)
	}
	passed, output := s.run(t, func(question []byte) any { return answer(question) })
	rows := 0
	for _, test := range s.tests {
		if !passed[test] {
			t.Errorf("with policies in place of checks, %s fails", test)
		}
		if asked[test] == 0 {
			t.Errorf("%s asks nothing: it says nothing about policies", test)
		}
		rows += asked[test]
	}
	if t.Failed() {
		t.Fatal(output)
	}
	t.Logf("%d tests asked about %d pods", len(s.tests), rows)
	passed, _ = s.run(t, func(question []byte) any {
		a := answer(question)
		return checkAnswer{Allowed: !a.Allowed, Reason: "wrong"}
	})
	for _, test := range s.tests {
		if passed[test] {
			t.Errorf("%s passes with wrong answers: it says nothing about policies", test)
		}
	}
}

// isCheck reports whether a function is one that checks a pod.
func isCheck(f *ast.FuncDecl) bool {
	if f.Recv != nil || f.Type.Results == nil || len(f.Type.Results.List) != 1 || f.Type.Params.NumFields() != 2 {
		return false
	}
	result, ok := f.Type.Results.List[0].Type.(*ast.Ident)
	return ok && result.Name == "CheckResult"
}

// checks are the policies of the packs, by level, version and check.
type checks struct {
	packs    map[place][]api.Policy
	deciders map[place]*engine.Engine
}

// answer returns what the policies of all places say about a pod, which has to be the same.
func (c *checks) answer(t *testing.T, q *checkQuestion) checkAnswer {
	t.Helper()
	if len(q.Places) == 0 {
		t.Errorf("%s asks about a function that is no check at any version", q.Test)
	}
	q.Pod.Name, q.Pod.Namespace = "pod", namespace
	if q.Pod.Spec.Containers == nil {
		// API servers require some.
		q.Pod.Spec.Containers = []corev1.Container{}
	}
	var all []string
	for i, at := range q.Places {
		said, err := said(t.Context(), c.decider(t, at), create(t, q.Pod))
		text := strings.Join(said, "; ")
		if err != nil {
			t.Errorf("%s: %+v: %v", q.Test, at, err)
			text = err.Error()
		}
		if all = append(all, text); text != all[0] {
			t.Errorf("%s: %+v says %q, and %+v %q", q.Test, q.Places[0], all[0], q.Places[i], text)
		}
	}
	if len(all) == 0 || all[0] == "" {
		return checkAnswer{Allowed: true}
	}
	reason, detail, _ := strings.Cut(all[0], " (")
	return checkAnswer{Reason: reason, Detail: strings.TrimSuffix(detail, ")")}
}

// decider returns what decides by the one policy for a check.
func (c *checks) decider(t *testing.T, at place) *engine.Engine {
	t.Helper()
	if d := c.deciders[at]; d != nil {
		return d
	}
	level := 0
	if at.Level == psaapi.LevelRestricted {
		level = 1
	}
	name := "pod-security-" + string(at.Level) + "-" + controls[at.Check][level]
	pack := place{Level: at.Level, Version: at.Version}
	if c.packs[pack] == nil {
		c.packs[pack] = denying(t, at.Level, at.Version)
	}
	for _, p := range c.packs[pack] {
		if p.Object.GetName() == name {
			c.deciders[at] = decider(t, []api.Policy{p}, labelled(nil))
			return c.deciders[at]
		}
	}
	t.Fatalf("there is no policy %q for check %s", name, at.Check)
	return nil
}
