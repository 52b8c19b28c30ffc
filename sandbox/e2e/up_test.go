package e2e

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/usher-dev/usher/sandbox"
)

// TestUpWithUsher is what `make sandbox` does: a cluster with Usher and policies from a
// folder, which ends as a whole.
func TestUpWithUsher(t *testing.T) {
	t.Parallel()
	up := sandbox.Binary(t)
	binary, err := usherBinary()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(up, "up", "--json", "--exit-on-stdin-eof", "--controllers", calm, "--with-usher",
		"--usher-bin", binary, "--crds", filepath.Join(root, "deploy", "crds"), "--policies", filepath.Join(root, "examples", "object-policies", "policies"))
	command.Stderr = os.Stderr
	stdin, errIn := command.StdinPipe()
	stdout, errOut := command.StdoutPipe()
	if errIn != nil || errOut != nil {
		t.Fatal(errIn, errOut)
	}
	began := time.Now()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var stopped error
	stop := sync.OnceFunc(func() {
		_ = stdin.Close()
		stopped = command.Wait()
	})
	t.Cleanup(stop)
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatalf("read what up says: %v", err)
	}
	t.Logf("a cluster with Usher is ready after %v", time.Since(began))
	var state struct {
		Kubeconfig string
		Usher      struct {
			URL, Script, Log string
			PID              int
		}
	}
	if err := json.Unmarshal(line, &state); err != nil {
		t.Fatalf("read what up says: %v: %s", err, line)
	}
	t.Cleanup(func() {
		if t.Failed() {
			showEnd(t, state.Usher.Log)
		}
	})
	config, err := clientcmd.BuildConfigFromFlags("", state.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.WarningHandler = rest.NoWarnings{}
	r := &rig{}
	r.connect(t, config)
	advised(t, state.Kubeconfig, binary)
	enforced := func() error {
		latest := pod(t, "shop", "cart")
		latest.Object["spec"] = map[string]any{
			"containers": []any{map[string]any{"name": "main", "image": "registry.example/cart:latest"}},
		}
		_, err := r.try(testContext(t), latest)
		return wantDenied(err, "pin the version of registry.example/cart:latest")
	}
	eventually(t, "a policy from the folder", enforced)

	// A night without Usher can be tried.
	if err := syscall.Kill(state.Usher.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a cluster without usher", func() error {
		_, err := r.try(testContext(t), pod(t, "shop", "cart"))
		return err
	})
	again := exec.Command(state.Usher.Script)
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = again.Process.Kill()
		_ = again.Wait()
	})
	eventually(t, "usher again", enforced)
	_ = again.Process.Kill()
	stop()
	if stopped != nil {
		t.Errorf("up ended with %v", stopped)
	}
	if connection, err := net.Dial("tcp", host(t, state.Usher.URL)); err == nil {
		_ = connection.Close()
		t.Error("usher still listens after the end of its sandbox")
	}
}

// advised runs the commands that hack/sandbox.sh prints, with the policy of the README.
func advised(t *testing.T, kubeconfig, binary string) {
	t.Helper()
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Log("kubectl is not installed: what hack/sandbox.sh advises is not tried")
		return
	}
	text, err := os.ReadFile(filepath.Join(root, "hack", "sandbox.sh"))
	if err != nil {
		t.Fatal(err)
	}
	policy := filepath.Join(t.TempDir(), "owner.yaml")
	if err := os.WriteFile(policy, []byte(requireOwner), 0o600); err != nil {
		t.Fatal(err)
	}
	var outputs []string
	for line := range strings.Lines(string(text)) {
		advice, _, _ := strings.Cut(line, "  #")
		advice, found := strings.CutPrefix(advice, "  ")
		if !found || !strings.HasPrefix(advice, "kubectl ") && !strings.HasPrefix(advice, "bin/usher ") {
			continue
		}
		advice = strings.Replace(strings.TrimSpace(advice), "bin/usher watch", "bin/usher watch --once", 1)
		replaced := strings.NewReplacer(`\$`, "$", "try/policies/owner.yaml", policy, "bin/usher", binary).Replace(advice)
		if strings.Contains(replaced, " audit ") {
			// It looks at the objects some time after they were written.
			replaced = "until " + replaced + " | grep lab/train; do sleep 0.2; done"
		}
		command := exec.CommandContext(testContext(t), "sh", "-c", replaced)
		command.Dir = root
		command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
		out, _ := command.CombinedOutput()
		outputs = append(outputs, string(out))
	}
	shown := []string{"namespace/lab created", "pod/train created", "label on-call is required", "require-owner created", "require-owner", "denied", "lab/train"}
	if len(outputs) != len(shown) {
		t.Fatalf("hack/sandbox.sh advises %d commands, want %d", len(outputs), len(shown))
	}
	for i, want := range shown {
		if !strings.Contains(outputs[i], want) {
			t.Errorf("command %d of hack/sandbox.sh prints %q, want %q", i, outputs[i], want)
		}
	}
}

const requireOwner = `
apiVersion: usher.dev/v1alpha1
kind: ClusterObjectPolicy
metadata: {name: require-owner}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "'owner' in object.metadata.?labels.orValue({})", message: label owner is required}]
  bindings: [{name: everywhere, validationActions: [Warn]}]
`
