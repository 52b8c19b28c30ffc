// Package etcd runs an embedded etcd on a unix socket: it does not listen on TCP.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// startTimeout limits how long etcd may take to elect itself.
const startTimeout = 30 * time.Second

// A Server is a running etcd.
type Server struct {
	// Endpoint is its address for kube-apiserver's --etcd-servers.
	Endpoint string

	etcd *embed.Etcd
}

const (
	socketName = "etcd.sock"
	// maxSocketPath is the maximum length of the path of a unix socket.
	maxSocketPath = 107
)

// Fits reports whether the path of a folder is short enough for a socket in it.
func Fits(dir string) bool { return len(filepath.Join(dir, socketName)) <= maxSocketPath }

// Start runs an etcd that keeps its data below dir and writes its log to logFile. The
// socket is in socketDir, which it must fit.
func Start(ctx context.Context, dir, socketDir, logFile string) (*Server, error) {
	if !Fits(socketDir) {
		return nil, fmt.Errorf("start etcd: the path of a socket in %s is longer than %d bytes: use a shorter folder", socketDir, maxSocketPath)
	}
	socket := filepath.Join(socketDir, socketName)
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("start etcd: remove stale socket: %w", err)
	}
	// A sandbox writes little: a segment of the default size, 64 MB, would be most of its folder.
	wal.SegmentSizeBytes = 4 << 20

	config := embed.NewConfig()
	config.Name = "sandbox"
	config.Dir = dir
	config.UnsafeNoFsync = true
	config.EnableGRPCGateway = false
	config.TickMs, config.ElectionMs = 10, 50
	config.LogLevel = "warn"
	config.LogOutputs = []string{logFile}
	config.ListenClientUrls = []url.URL{{Scheme: "unix", Path: socket}}
	config.ListenPeerUrls = nil
	nowhere := []url.URL{{Scheme: "http", Host: "127.0.0.1:1"}}
	config.AdvertiseClientUrls, config.AdvertisePeerUrls = nowhere, nowhere
	config.InitialCluster = config.InitialClusterFromName(config.Name)

	server, err := embed.StartEtcd(config)
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		server.Close()
		return nil, fmt.Errorf("start etcd: %w", err)
	case <-time.After(startTimeout):
		server.Close()
		return nil, fmt.Errorf("start etcd: not ready after %s: see %s", startTimeout, logFile)
	case <-ctx.Done():
		server.Close()
		return nil, ctx.Err()
	}
	return &Server{Endpoint: "unix://" + socket, etcd: server}, nil
}

// Stop stops etcd.
func (s *Server) Stop() { s.etcd.Close() }
