package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/usher-dev/usher/sandbox"
)

// TestEnforcedEndsWithTheLastServer: the status does not go on saying that a policy is enforced
// when the only server has ended, or Usher was uninstalled after a crash; it does again when
// another server has started.
func TestEnforcedEndsWithTheLastServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, sandbox.Options{Exclusive: true})
	process := r.serve(t)
	namespace := r.Namespace(t)
	policy, err := r.apply(testContext(t), labelling(t, namespace, namespace, "last"))
	if err != nil {
		t.Fatal(err)
	}
	r.awaitCondition(t, policy, "Enforced", "True")
	process.Stop()
	current := r.awaitCondition(t, policy, "Enforced", "False")
	if reason, message := condition(current, "Enforced"); reason != "NoServer" {
		t.Errorf("Enforced is False with %s: %s, want NoServer", reason, message)
	}
	process = r.serve(t)
	r.awaitCondition(t, policy, "Enforced", "True")
	process.Kill()
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(testContext(t), binary, "uninstall", "--kubeconfig", r.Kubeconfig).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "policies whose status says now that they are not enforced: 1\n") {
		t.Errorf("usher uninstall: %v\n%s", err, out)
	}
	current = r.awaitCondition(t, policy, "Enforced", "False")
	if reason, message := condition(current, "Enforced"); reason != "Uninstalled" {
		t.Errorf("Enforced is False with %s: %s, want Uninstalled", reason, message)
	}
}
