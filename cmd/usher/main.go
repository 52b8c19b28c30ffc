// Command usher decides what may enter a Kubernetes cluster: it serves admission and authorization
// webhooks, and shows on the command line what they would decide, and why.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	// The container image contains no root certificates.
	_ "golang.org/x/crypto/x509roots/fallback"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/trial/isolated"
)

func main() {
	// Some processes of this program do nothing but evaluate CUE.
	isolated.Main()
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	s := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	return cli.Execute(ctx, newRoot(s), s, os.Args[1:])
}
