package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// moved is a command that is in usher-samples now. It says so for a release, whatever its
// arguments are.
func moved(name string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Short:              "Moved to usher-samples " + name,
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return fmt.Errorf("usher %s has moved to a binary of its own, with the same flags and paths: run usher-samples %s; "+
				"to build it, run go install github.com/usher-dev/usher/cmd/usher-samples@latest", name, name)
		},
	}
}
