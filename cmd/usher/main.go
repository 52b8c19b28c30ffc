// Command usher decides what may enter a Kubernetes cluster: it serves admission and authorization
// webhooks, and shows on the command line what they would decide, and why.
package main

import (
	"os"

	// The container image contains no root certificates.
	_ "golang.org/x/crypto/x509roots/fallback"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/trial/isolated"
)

func main() {
	// Some processes of this program do nothing but evaluate CUE and compile policies.
	isolated.Main()
	os.Exit(cli.Main(newRoot))
}
