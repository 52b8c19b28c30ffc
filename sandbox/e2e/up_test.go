package e2e

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
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
		"--usher-bin", binary, "--crds", filepath.Join(root, "deploy", "crds"), "--policies", filepath.Join(root, "examples", "policies"))
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
		Usher      struct{ URL string }
	}
	if err := json.Unmarshal(line, &state); err != nil {
		t.Fatalf("read what up says: %v: %s", err, line)
	}
	config, err := clientcmd.BuildConfigFromFlags("", state.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.WarningHandler = rest.NoWarnings{}
	r := &rig{}
	r.connect(t, config)
	r.ensureNamespace(t, "lab")
	eventually(t, "a policy from the folder", func() error {
		latest := pod(t, "lab", "cart")
		latest.Object["spec"] = map[string]any{
			"containers": []any{map[string]any{"name": "main", "image": "registry.example/cart:latest"}},
		}
		_, err := r.try(testContext(t), latest)
		return wantDenied(err, "pin the image of main")
	})
	stop()
	if stopped != nil {
		t.Errorf("up ended with %v", stopped)
	}
	if connection, err := net.Dial("tcp", host(t, state.Usher.URL)); err == nil {
		_ = connection.Close()
		t.Error("usher still listens after the end of its sandbox")
	}
}
