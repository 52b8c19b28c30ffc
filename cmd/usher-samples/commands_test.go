package main

import (
	"io"
	"testing"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/internal/cli/clitest"
)

// TestCommandsAreConsistent is about all commands at once: what is the same is called the same.
func TestCommandsAreConsistent(t *testing.T) {
	t.Parallel()
	s := cli.Streams{Out: io.Discard, Err: io.Discard}
	clitest.Consistent(t, newRoot(s))
}

// TestFlagsOnlyGrow holds the promise of docs/upgrading.md for flags.
func TestFlagsOnlyGrow(t *testing.T) {
	t.Parallel()
	clitest.OnlyGrow(t, newRoot(cli.Streams{Out: io.Discard, Err: io.Discard}), "testdata/flags.txt")
}
