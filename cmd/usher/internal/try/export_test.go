package try

import (
	"context"
	"time"
)

// Named returns which of the arguments of usher exempt name objects of a cluster, and which files.
func Named(fromCluster bool, args []string) (named, files []string) {
	f := exemptFlags{}
	f.fromCluster = fromCluster
	files = f.takeNamed(args)
	return f.named, files
}

// Dial waits for a webhook.
func Dial(ctx context.Context, url, caFile string, wait time.Duration) error {
	_, err := dial(ctx, url, caFile, wait)
	return err
}
