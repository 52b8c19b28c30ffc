// Command usher-sandbox runs a Kubernetes control plane in one process: etcd, the real
// kube-apiserver and, on request, controllers. It listens on 127.0.0.1 only.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubeapiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"

	"github.com/usher-dev/usher/internal/trial/isolated"
)

func main() {
	// An API server with the plugin in it evaluates CUE in processes of its own.
	isolated.Main()
	// Under the names of the binaries that envtest expects, it behaves like them.
	switch filepath.Base(os.Args[0]) {
	case "kube-apiserver":
		os.Exit(cli.Run(kubeapiserver.NewAPIServerCommand()))
	case "etcd":
		etcdmain.Main(append(os.Args, "--unsafe-no-fsync"))
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := root().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "usher-sandbox:", err)
		os.Exit(exitCode(err))
	}
}

func root() *cobra.Command {
	command := &cobra.Command{
		Use:   "usher-sandbox",
		Short: "a real Kubernetes control plane in one process",
		Long: `usher-sandbox runs etcd and the real kube-apiserver, and controllers if wanted, in one
process, without containers or downloads. It is ready in seconds and listens on 127.0.0.1 only.
There are no nodes: pods stay pending, and admission works as in any cluster.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.AddCommand(upCommand(), runCommand(), certCommand(), assetsCommand())
	return command
}
