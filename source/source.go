// Package source defines where policies come from. Its subfolders are the sources: dir reads them
// from files, cluster from an API server.
//
// A Source delivers whole sets, never single changes: what is not in the newest set does not exist.
package source

import (
	"context"
	"fmt"

	"github.com/usher-dev/usher/api"
)

// A Source delivers the policies, and again whenever they change.
type Source interface {
	// Run calls update once at the start and after every change, one call at a time, and
	// blocks until ctx is done, when it returns nil. An error means that the source could
	// not start: update was never called.
	Run(ctx context.Context, update func(Set)) error
}

// A Set is everything that a source holds at one time. It is immutable.
type Set struct {
	// Policies are in a stable order and have different names within a kind and namespace.
	Policies []api.Policy
	// Unreadable are documents that should be policies and are not in Policies.
	Unreadable []Unreadable
	// Skipped are files in which nothing is a policy. Sources that go on running leave it empty.
	Skipped []string
}

// An Unreadable is something that could not be read as a policy.
type Unreadable struct {
	Position api.Position
	Err      error
	// Do says how to correct it; if it is empty, the text has to be corrected.
	Do string
}

// String is the entry in one line:
//
//	policies/a.yaml:12: ClusterOverridePolicy x: metadata.name is missing
func (u Unreadable) String() string {
	switch {
	case u.Position.File != "" && u.Position.Line > 0:
		return fmt.Sprintf("%s:%d: %v", u.Position.File, u.Position.Line, u.Err)
	case u.Position.File != "":
		return fmt.Sprintf("%s: %v", u.Position.File, u.Err)
	}
	return u.Err.Error()
}
