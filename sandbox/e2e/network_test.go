package e2e

import (
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// A network stands between somebody and the servers that they call: connections go to the
// first of the targets in turn that answers, as a Service's do, and can be cut.
type network struct {
	listener net.Listener

	mu      sync.Mutex
	targets []string
	next    int
	cut     bool
	open    map[net.Conn]bool
}

func newNetwork(t *testing.T, targets ...string) *network {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &network{listener: listener, targets: targets, open: map[net.Conn]bool{}}
	t.Cleanup(func() {
		_ = listener.Close()
		n.sever()
	})
	go n.accept()
	return n
}

// address is where the network is entered.
func (n *network) address() string { return n.listener.Addr().String() }

// lead makes the network lead to other targets.
func (n *network) lead(targets ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.targets = targets
}

// sever cuts every connection, and new ones until mend.
func (n *network) sever() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = true
	for connection := range n.open {
		_ = connection.Close()
	}
}

func (n *network) mend() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = false
}

func (n *network) accept() {
	for {
		near, err := n.listener.Accept()
		if err != nil {
			return
		}
		go n.carry(near)
	}
}

func (n *network) carry(near net.Conn) {
	defer n.drop(near)
	far := n.dial()
	if far == nil {
		return
	}
	defer n.drop(far)
	if !n.keep(near, far) {
		return
	}
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			ended <- struct{}{}
		}()
	}
	<-ended
}

// dial connects to the next target that answers; nil if none does.
func (n *network) dial() net.Conn {
	n.mu.Lock()
	targets, first := n.targets, n.next
	n.next++
	n.mu.Unlock()
	for i := range targets {
		if far, err := net.Dial("tcp", targets[(first+i)%len(targets)]); err == nil {
			return far
		}
	}
	return nil
}

func (n *network) keep(connections ...net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, connection := range connections {
		n.open[connection] = true
	}
	return !n.cut
}

func (n *network) drop(connection net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.open, connection)
	_ = connection.Close()
}

// host is the host and port of a URL.
func host(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// kubeconfigVia is a kubeconfig with which users reach the API server through the network.
func kubeconfigVia(t *testing.T, kubeconfig string, n *network) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = "https://" + n.address()
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
