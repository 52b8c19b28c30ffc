// Package sandbox starts the command usher-sandbox: a control plane in a process of its own.
package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// startTimeout bounds a start. On an idle machine it takes three seconds, on a loaded one
// a quarter of a minute.
const startTimeout = 90 * time.Second

// controllers are those without which no Deployment has pods, or loses them.
const controllers = "serviceaccount-controller,root-ca-certificate-publisher-controller," +
	"deployment-controller,replicaset-controller,garbage-collector-controller"

// withoutCache makes the API server answer from etcd. Specs delete a definition right after
// they changed its storage version; the watch cache of its resources is made again at that
// moment, and if it is not ready the API server tries again later than the specs wait
// (kubernetes/kubernetes#138086, #140485).
const withoutCache = "--kube-apiserver-arg=--watch-cache=false"

// Options say what to start.
type Options struct {
	// Binary is the path of usher-sandbox.
	Binary string
	// Dir takes the certificates, the data and the log. What was there is removed.
	Dir string
	// Network is the host:port at which the API server finds every service.
	Network string
}

// A Sandbox is a running control plane.
type Sandbox struct {
	Kubeconfig string
	Client     kubernetes.Interface

	stdin io.Closer
	ended <-chan struct{}
	kill  func() error
}

// Start starts a control plane in which an administrator can work. It ends with
// [Sandbox.Stop], and with this process however that ends.
func Start(ctx context.Context, o Options) (*Sandbox, error) {
	s, err := start(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("start sandbox: %w", err)
	}
	return s, nil
}

func start(ctx context.Context, o Options) (*Sandbox, error) {
	if err := os.RemoveAll(o.Dir); err != nil {
		return nil, err
	}
	command := exec.Command(o.Binary, "up", "--json", "--exit-on-stdin-eof", "--dir="+o.Dir,
		"--controllers="+controllers, withoutCache, "--service=*/*="+o.Network)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	s := &Sandbox{stdin: stdin, ended: ended, kill: command.Process.Kill}
	said := make(chan []byte, 1)
	go func() {
		defer close(ended)
		line, _ := bufio.NewReader(stdout).ReadBytes('\n')
		said <- line
		_, _ = io.Copy(io.Discard, stdout)
		_ = command.Wait()
	}()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case line := <-said:
		if len(line) == 0 {
			<-ended
			return nil, fmt.Errorf("it ended: %s", bytes.TrimSpace(stderr.Bytes()))
		}
		if err := s.adopt(line); err != nil {
			s.Stop()
			return nil, err
		}
		return s, nil
	case <-ctx.Done():
		s.Stop()
		return nil, errors.Join(ctx.Err(), fmt.Errorf("not ready: %s", bytes.TrimSpace(stderr.Bytes())))
	}
}

// adopt takes over what the process says of itself.
func (s *Sandbox) adopt(line []byte) error {
	var state struct {
		Kubeconfig string `json:"kubeconfig"`
	}
	if err := json.Unmarshal(line, &state); err != nil {
		return fmt.Errorf("read what it says: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", state.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	s.Kubeconfig = state.Kubeconfig
	s.Client, err = kubernetes.NewForConfig(config)
	return err
}

// Stop ends the control plane.
func (s *Sandbox) Stop() {
	_ = s.kill()
	_ = s.stdin.Close()
	<-s.ended
}
