package live_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/source/dir"
	"github.com/usher-dev/usher/webhook"
)

// A server is ready when a policy is in force: a folder without policies is loaded, too.
func ExampleLive_Policies() {
	folder, err := os.MkdirTemp("", "policies")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	policies := live.New(live.Options{})
	go func() { _ = policies.Run(ctx, dir.New(folder)) }() // WaitLoaded returns its error

	ready := func() error {
		if !slices.ContainsFunc(policies.Policies(), func(p live.Policy) bool { return p.Enforced }) {
			return errors.New("no policies in force")
		}
		return nil
	}
	options := webhook.Options{CertFile: "certs/tls.crt", KeyFile: "certs/tls.key", Ready: ready}

	fmt.Println(policies.WaitLoaded(ctx), options.Ready())
	// Output: <nil> no policies in force
}
