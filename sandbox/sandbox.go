// Package sandbox gives tests a real Kubernetes control plane: etcd, the real
// kube-apiserver and controllers, as one process on 127.0.0.1, without containers and
// without downloads.
//
//	cluster := sandbox.Start(t)
//	namespace := cluster.Namespace(t)
//	client := kubernetes.NewForConfigOrDie(cluster.RESTConfig)
//
// The process runs the command usher-sandbox. It is ready after about three seconds. The tests of a
// package share it, and it ends with them, even if they crash. There are no nodes: pods stay
// pending.
package sandbox

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/usher-dev/usher/sandbox/internal/port"
)

// startTimeout bounds a start. On an idle machine it takes three seconds, on a loaded one
// a quarter of a minute.
const startTimeout = 90 * time.Second

// Options configure a cluster. The zero value is a cluster with one API server and the controllers
// that make it behave like a cluster.
type Options struct {
	// Services maps services to addresses, because there is no service network:
	// namespace/name[:port]=host:port.
	Services []string
	// Controllers are "core" if empty, "none", or a comma-separated list of controllers of
	// kube-controller-manager.
	Controllers string
	// AuthorizationConfig and AdmissionConfig are files for the flags of kube-apiserver
	// --authorization-config and --admission-control-config-file.
	AuthorizationConfig string
	AdmissionConfig     string
	// Plugin, if set, runs Usher as an admission plugin of the API servers.
	Plugin *Plugin
	// APIServerArgs are additional flags of kube-apiserver, such as --v=4.
	APIServerArgs []string
	// Exclusive clusters are not shared with other tests and end with the test. Only
	// these can be stopped and restarted.
	Exclusive bool
}

// A Plugin is Usher in the API server's own process.
type Plugin struct {
	// Policies are files and folders with policies.
	Policies []string
	// CRDs is the folder with the CustomResourceDefinitions of policies. It is for policies from
	// the API, without Policies.
	CRDs string
}

func (p *Plugin) args() []string {
	if p == nil {
		return nil
	}
	args := []string{"--plugin"}
	for _, path := range p.Policies {
		args = append(args, "--policies="+path)
	}
	if p.CRDs != "" {
		args = append(args, "--crds="+p.CRDs)
	}
	return args
}

func (o Options) args() []string {
	args := append([]string{"up", "--json", "--exit-on-stdin-eof"}, o.Plugin.args()...)
	for _, service := range o.Services {
		args = append(args, "--service="+service)
	}
	for _, arg := range o.APIServerArgs {
		args = append(args, "--kube-apiserver-arg="+arg)
	}
	for flag, value := range map[string]string{
		"--controllers=":                   o.Controllers,
		"--authorization-config=":          o.AuthorizationConfig,
		"--admission-control-config-file=": o.AdmissionConfig,
	} {
		if value != "" {
			args = append(args, flag+value)
		}
	}
	slices.Sort(args[3:])
	return args
}

// A Cluster is a running control plane. Its methods are not safe for concurrent use, except
// [Cluster.Namespace].
type Cluster struct {
	// Kubeconfig is a file with the credentials of an administrator.
	Kubeconfig string
	// RESTConfig has the same credentials for client-go, without client-side throttling.
	RESTConfig *rest.Config
	// Dir has the certificates, the data and the log.
	Dir string
	// Etcd is the address of its etcd, for additional API servers.
	Etcd string
	// PID is the process ID, until the process is stopped.
	PID int

	options Options
	binary  string
	args    []string
	log     string
	process *process
}

// shared holds the clusters that the tests of this process share.
var shared = struct {
	sync.Mutex
	clusters map[string]*Cluster
}{clusters: map[string]*Cluster{}}

// Start gives the test a control plane in which an administrator can work: a shared one if a test
// of the same package requested the same options before, otherwise a new one. At most one Options
// may be given.
//
// The command is $USHER_SANDBOX_BIN. If that is not set, the command is built once, which takes
// minutes, and kept in the user's cache. The test is skipped with -short, and if there is neither a
// command nor a Go toolchain.
func Start(t testing.TB, o ...Options) *Cluster {
	t.Helper()
	binary := Binary(t)
	var options Options
	switch len(o) {
	case 0:
	case 1:
		options = o[0]
	default:
		t.Fatalf("start sandbox: %d Options given, at most one is of use", len(o))
	}
	cluster, err := obtain(binary, options)
	if err != nil {
		t.Fatal(err)
	}
	if options.Exclusive {
		// This runs after the log was shown, which needs the folder.
		t.Cleanup(func() {
			cluster.end()
			_ = os.RemoveAll(cluster.Dir)
		})
	}
	t.Cleanup(func() { cluster.showLog(t) })
	return cluster
}

func obtain(binary string, options Options) (*Cluster, error) {
	cluster := &Cluster{options: options, binary: binary, args: options.args()}
	if options.Exclusive {
		return cluster, cluster.startAnew()
	}
	shared.Lock()
	defer shared.Unlock()
	key := strings.Join(cluster.args, "\x00")
	if running, ok := shared.clusters[key]; ok {
		return running, nil
	}
	if err := cluster.start(); err != nil {
		return nil, err
	}
	shared.clusters[key] = cluster
	return cluster, nil
}

// A process is one run of the command.
type process struct {
	command *exec.Cmd
	// stdin keeps the process alive: the process ends when this end is closed, also if the test
	// crashes.
	stdin  io.WriteCloser
	stderr *tail
	done   chan struct{}
}

// state is what the command prints when it is ready.
type state struct {
	Kubeconfig string `json:"kubeconfig"`
	Etcd       string `json:"etcd"`
	Dir        string `json:"dir"`
	Log        string `json:"log"`
	PID        int    `json:"pid"`
}

func (c *Cluster) start() error {
	p := &process{command: exec.Command(c.binary, c.args...), stderr: &tail{}, done: make(chan struct{})}
	p.command.Stderr = p.stderr
	var err error
	if p.stdin, err = p.command.StdinPipe(); err != nil {
		return fmt.Errorf("start sandbox: %w", err)
	}
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start sandbox: %w", err)
	}
	if err := p.command.Start(); err != nil {
		return fmt.Errorf("start sandbox: %w", err)
	}
	c.process = p
	line := make(chan []byte, 1)
	go func() {
		text, _ := bufio.NewReader(stdout).ReadBytes('\n')
		line <- text
		_, _ = io.Copy(io.Discard, stdout)
		_ = p.command.Wait()
		close(p.done)
	}()
	select {
	case text := <-line:
		if len(text) == 0 {
			<-p.done
			return fmt.Errorf("start sandbox: %s ended: %s", c.binary, p.stderr)
		}
		return c.adopt(text)
	case <-time.After(startTimeout):
		c.end()
		return fmt.Errorf("start sandbox: not ready after %s: %s", startTimeout, p.stderr)
	}
}

// startAnew starts a cluster that can be restarted: in a folder that outlives the process, and at
// an address that no other process takes in the meantime.
func (c *Cluster) startAnew() error {
	dir, err := os.MkdirTemp("", "usher-sandbox")
	if err != nil {
		return fmt.Errorf("start sandbox: %w", err)
	}
	address, err := port.Free()
	if err != nil {
		return fmt.Errorf("start sandbox: %w", err)
	}
	c.args = append(c.args, "--dir="+dir, "--port="+address)
	return c.start()
}

// adopt stores the state that the process prints.
func (c *Cluster) adopt(text []byte) error {
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("start sandbox: read what it says: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		return fmt.Errorf("start sandbox: %w", err)
	}
	config.QPS = -1
	c.Kubeconfig, c.RESTConfig, c.Etcd, c.Dir, c.log, c.PID = s.Kubeconfig, config, s.Etcd, s.Dir, s.Log, s.PID
	return nil
}

// end kills the process, if it runs, and waits until it has exited.
func (c *Cluster) end() {
	if c.process == nil {
		return
	}
	_ = c.process.command.Process.Kill()
	<-c.process.done
	c.process, c.PID = nil, 0
}

// Kill kills the process, like a crash. Its data stays.
func (c *Cluster) Kill(t testing.TB) {
	t.Helper()
	c.exclusive(t)
	c.end()
}

// Stop stops the process gracefully: requests in flight are finished. Its data stays.
func (c *Cluster) Stop(t testing.TB) {
	t.Helper()
	c.exclusive(t)
	if c.process == nil {
		return
	}
	_ = c.process.stdin.Close()
	select {
	case <-c.process.done:
	case <-time.After(startTimeout):
		t.Errorf("stop sandbox: still running after %s", startTimeout)
	}
	c.end()
}

// Restart starts the process again, after [Cluster.Stop] or [Cluster.Kill] or instead of
// them, on the same data and at the same address.
func (c *Cluster) Restart(t testing.TB) {
	t.Helper()
	c.exclusive(t)
	c.end()
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
}

// Join starts another API server on the etcd of the cluster, as a process of its own:
// it can be stopped and restarted while the rest of the cluster runs. It ends with the
// test.
func (c *Cluster) Join(t testing.TB) *Cluster {
	t.Helper()
	joined := &Cluster{options: c.options, binary: c.binary, args: append(c.options.args(), "--join="+c.Dir)}
	joined.options.Exclusive = true
	if err := joined.startAnew(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		joined.end()
		_ = os.RemoveAll(joined.Dir)
	})
	t.Cleanup(func() { joined.showLog(t) })
	return joined
}

func (c *Cluster) exclusive(t testing.TB) {
	t.Helper()
	if !c.options.Exclusive {
		t.Fatal("a sandbox that other tests share is not stopped: ask for Options{Exclusive: true}")
	}
}

// showLog logs the last errors in the cluster's log if the test failed.
func (c *Cluster) showLog(t testing.TB) {
	if !t.Failed() {
		return
	}
	file, err := os.Open(filepath.Clean(c.log))
	if err != nil {
		t.Logf("log of the sandbox: %v", err)
		return
	}
	defer file.Close()
	end, last := &tail{}, ""
	for lines := bufio.NewScanner(file); lines.Scan(); {
		// klog writes a line once for its severity and once for each below.
		if line := lines.Text(); line != last && isError(line) {
			_, _ = io.WriteString(end, line+"\n")
			last = line
		}
	}
	t.Logf("last errors of the sandbox, %s:\n%s", c.log, end)
}

func isError(line string) bool { return strings.HasPrefix(line, "E") || strings.HasPrefix(line, "F") }

// tail is a writer that keeps the last lines.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// tailBytes is about forty lines.
const tailBytes = 8 << 10

func (l *tail) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, text...)
	if extra := len(l.text) - tailBytes; extra > 0 {
		l.text = append(l.text[:0], l.text[extra:]...)
	}
	return len(text), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(string(l.text))
}
